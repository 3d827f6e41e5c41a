"""THE SEARCH SERVICES BY NAME: `--search a,b,c` -> the providers in that order. Literal data, and what each needs.

`auto` is what is configured: services with a key or an address of one's own first, then those that need neither.
`corpus` is no service: it says that the corpora of a run are searched beside them.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from venus_edge.errors import UsageError
from venus_edge.settings import Services
from venus_edge.sources.brave import Brave
from venus_edge.sources.ddgs import Ddgs
from venus_edge.sources.gate import Gate
from venus_edge.sources.language import Market
from venus_edge.sources.provider import Provider
from venus_edge.sources.searxng import SearXNG
from venus_edge.sources.serper import Serper
from venus_edge.sources.tavily import Tavily
from venus_edge.sources.wikipedia import Wikipedia

CORPUS = "corpus"
Make = Callable[[Gate, str, Market | None], Provider]

# name -> (the variable that configures it, "" if it needs nothing; what makes it), in the order of `auto`
SERVICES: dict[str, tuple[str, Make]] = {
    "searxng": ("VENUS_SEARXNG_URL", lambda gate, base, place: SearXNG(gate.allowing(_host(base)), base, place)),
    "serper": ("VENUS_SERPER_KEY", lambda gate, key, place: Serper(gate, key, market=place)),
    "brave": ("VENUS_BRAVE_KEY", lambda gate, key, place: Brave(gate, key, market=place)),
    "tavily": ("VENUS_TAVILY_KEY", lambda gate, key, place: Tavily(gate, key)),
    "ddgs": ("", lambda gate, _, place: Ddgs(gate, place)),
    "wikipedia": ("", lambda gate, _, place: Wikipedia(gate, market=place)),
}


# Where the services are that have an address of their own, as their modules name it; SearXNG's is the person's.
_SITES = {
    "serper": "https://google.serper.dev/",
    "brave": "https://api.search.brave.com/",
    "tavily": "https://api.tavily.com/",
    "ddgs": "https://html.duckduckgo.com/html/",
    "wikipedia": "https://en.wikipedia.org/w/api.php",
}


def sites(order: str, configured: Services) -> dict[str, tuple[str, str]]:
    """The services in `order` -> an address that shows whether each can be reached, and the host of one's own that it
    may be at, "" for a public one. Raises UsageError for a service that is not known or not configured."""
    named = {provider.name for provider in providers(order, configured, Gate())}
    there = {name: (site, "") for name, site in _SITES.items() if name in named}
    own = configured.searxng
    return {"searxng": (own, _host(own)), **there} if "searxng" in named else there


def _host(base: str) -> str:
    """The host and port of an address that a person configured: it need not be public."""
    try:
        parts = urlsplit(base)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        port = 0
    if not port or not parts.hostname or parts.scheme not in ("http", "https"):
        raise UsageError("VENUS_SEARXNG_URL is not an address like http://localhost:8888")
    return f"[{parts.hostname}]:{port}" if ":" in parts.hostname else f"{parts.hostname}:{port}"


def named(order: str) -> list[str]:
    """The names in an order of services. Raises UsageError for one that is not known."""
    names = [name.strip() for name in order.split(",") if name.strip()]
    for name in names:
        if name not in SERVICES and name not in ("auto", CORPUS):
            raise UsageError(f"no search service {name!r}; known: auto, {', '.join(SERVICES)}, {CORPUS}")
    return names


def providers(order: str, configured: Services, gate: Gate, place: Market | None = None) -> tuple[Provider, ...]:
    """The services in `order`. Raises UsageError for one that is not known or not configured."""
    names = [name for name in named(order) if name != CORPUS]
    chosen: dict[str, Provider] = {}
    for name in names:
        if name == "auto":
            usable = (known for known, (variable, _) in SERVICES.items() if not variable or configured.of(known))
            chosen |= {known: _made(known, configured, gate, place) for known in usable if known not in chosen}
        else:
            chosen.setdefault(name, _made(name, configured, gate, place))
    if not chosen and CORPUS not in named(order):
        raise UsageError(f"no search service is named; known: auto, {', '.join(SERVICES)}, {CORPUS}")
    return tuple(chosen.values())


def _made(name: str, configured: Services, gate: Gate, place: Market | None) -> Provider:
    variable, make = SERVICES[name]
    given = configured.of(name)
    if variable and not given:
        raise UsageError(
            f"search service {name} is not configured: set {variable}, or {variable.removeprefix('VENUS_').lower()} "
            "in config.toml (venus-edge config path)"
        )
    return make(gate, given, place)
