"""robots.txt -> MAY THIS PAGE BE READ? By switch (`--robots`): a person's own agent reads what its person could.

In: an address. Out: whether the site lets robots of our name read it (RFC 9309: the group of our name, else that of
"*"; in it the longest pattern that fits, "allow" if two are as long). A site without the file lets them; one whose
server fails at it does not. Each site's rules are asked for once.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from urllib.parse import urlsplit

from venus_edge.sources.address import Address, parse
from venus_edge.sources.http import Response
from venus_edge.values import Failure, Trouble

_LARGEST = 500_000  # bytes that are looked at, as the RFC asks for
_LINE = re.compile(r"^\s*(user-agent|allow|disallow)\s*:\s*([^#\s]*)", re.I)
REFUSED = Failure(Trouble.REFUSED, "refused: the site's robots.txt asks robots not to read this page")

Rule = tuple[str, bool]  # (pattern, whether it allows)
_NOTHING_ALLOWED: tuple[Rule, ...] = (("/", False),)


class Robots:
    """The rules of the sites that were asked. `fetch` gets a robots.txt; `agent` is our User-Agent."""

    def __init__(self, fetch: Callable[[Address], Response | Failure], agent: str) -> None:
        self._fetch, self._agent = fetch, agent.partition("/")[0].strip().lower()
        self._rules: dict[str, tuple[Rule, ...]] = {}
        self._lock = threading.Lock()

    def allows(self, address: Address) -> bool:
        parts = urlsplit(address.url)
        site = f"{parts.scheme}://{parts.netloc}"
        with self._lock:
            if site not in self._rules:
                self._rules[site] = self._read(site)
            return allowed(self._rules[site], parts.path + (f"?{parts.query}" if parts.query else ""))

    def _read(self, site: str) -> tuple[Rule, ...]:
        address = parse(f"{site}/robots.txt")
        response = self._fetch(address) if isinstance(address, Address) else address
        if isinstance(response, Failure):
            return ()  # the page itself will say what is wrong
        if response.status >= 500:
            return _NOTHING_ALLOWED
        return rules(response.body[:_LARGEST].decode("utf-8", "replace"), self._agent) if response.status < 400 else ()


def rules(text: str, agent: str) -> tuple[Rule, ...]:
    """The rules of a robots.txt for a robot of this name."""
    groups: dict[str, list[Rule]] = {}
    names: list[str] = []
    open_to_names = False
    for line in re.split(r"\r\n|\r|\n", text):
        found = _LINE.match(line)
        if found is None:
            continue
        field, value = found[1].lower(), found[2]
        if field == "user-agent":
            names = [*names, value.lower()] if open_to_names else [value.lower()]
            groups.setdefault(value.lower(), [])
        elif value:
            for name in names:
                groups[name].append((value, field == "allow"))
        open_to_names = field == "user-agent"
    return tuple(groups.get(agent, groups.get("*", [])))


def allowed(given: tuple[Rule, ...], path: str) -> bool:
    """Whether the rules let a path be read."""
    fitting = [(len(pattern), allows) for pattern, allows in given if _fits(pattern, path or "/")]
    return max(fitting)[1] if fitting else True


def _fits(pattern: str, path: str) -> bool:
    """`*` stands for any characters, a `$` at the end for the end. No backtracking: a site may send any pattern."""
    bare = pattern.removesuffix("$")
    first, *rest = bare.split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    for n, piece in enumerate(rest):
        if pattern.endswith("$") and n == len(rest) - 1:
            return len(path) - len(piece) >= at and path.endswith(piece)
        found = path.find(piece, at)
        if found < 0:
            return False
        at = found + len(piece)
    return at == len(path) if pattern.endswith("$") else True
