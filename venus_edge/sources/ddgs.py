"""QUERY -> HITS, by the ddgs package, or by duckduckgo_search where only that is installed: no key is needed.

ddgs asks DuckDuckGo, then Brave, Mojeek, Startpage and Yahoo, one after the other until one has results.
duckduckgo_search 8, whatever its name says, asks www.bing.com. Both bring sockets of their own: the gate's policy is
asked and its ledger written for each request and each redirect, proxies are those of the gate, but connections are not
pinned. ddgs itself tells a refusal as "No results found."; the replies are watched here, so that refused, empty and
unreachable stay three things.
"""

from __future__ import annotations

import importlib
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urljoin, urlsplit

from venus_edge.sources.deadline import within
from venus_edge.sources.gate import Gate, Refusal
from venus_edge.sources.language import Market, market
from venus_edge.sources.provider import EMPTY, REFUSED, TIMED_OUT, UNREACHABLE, Reply, found
from venus_edge.sources.proxies import address_of
from venus_edge.sources.service import is_check
from venus_edge.values import Failure, Hit, Trouble

BACKENDS = "duckduckgo,brave,mojeek,startpage,yahoo"
_REFUSING = frozenset((202, 301, 302, 400, 401, 403, 418, 429, 503))
_MOST_REDIRECTS = 5
_SOMEWHERE = "https://search.example/"  # an engine that makes its address up as it goes
_NOTHING = re.compile(
    r"no (?:more |web )?(?:results?|pages)\b|did(?: not|n['’]t) (?:match|find)|not found any|nothing (?:was )?found"
    r"|couldn['’]t find|没有找到|未找到|没有结果|沒有(?:找到|結果)|見つかりません|検索結果はありません"
    r"|검색결과가 없|ничего не найдено",
    re.I,
)

UNCLEAR = Failure(Trouble.REFUSED, "nothing found, or the search service refused: it does not say which")
MISSING = Failure(
    Trouble.REFUSED, "web search is not installed: pip install ddgs (search in a local corpus works without it)"
)


@dataclass(frozen=True, slots=True)
class Seen:
    """How one request to a search service ended: a status and text, or an `error` that names what happened instead."""

    status: int = 0
    text: str = ""
    error: str = ""


Log = list[Seen]
Asker = Callable[[str, str, int, float, Log], list[dict[str, str]]]  # query, region, limit, deadline, log -> results


@dataclass(frozen=True, slots=True)
class Ddgs:
    """One try at a query. `market` None means: by the query's script."""

    gate: Gate
    market: Market | None = None
    backends: str = BACKENDS
    name: str = "ddgs"
    whole_web: bool = True
    pause: float = 1.0  # its services refuse who asks faster

    def ask(self, query: str, limit: int, deadline: float) -> Reply:
        """The results of `query`, sent as it is, or the failure that says why there are none."""
        ask = self._asker()
        if ask is None:
            return Reply(failure=MISSING, again="never")
        return _reply(ask, query, (self.market or market(query)).region, limit, deadline)

    def _asker(self) -> Asker | None:
        """How the installed package is asked; None if there is none."""
        for make in (self._engines, self._ddgs, self._duckduckgo_search):
            try:
                return make()
            except ImportError:
                continue
        return None

    # -- ddgs, engine by engine

    def _engines(self) -> Asker:
        """ddgs's engines, asked by ourselves: its own thread pool would outlive the deadline, and the process."""
        engines: dict[str, Any] = importlib.import_module("ddgs.engines").ENGINES["text"]
        named = [engines[name] for name in self.backends.split(",") if name in engines]

        def ask(query: str, region: str, limit: int, deadline: float, log: Log) -> list[dict[str, str]]:
            found: list[dict[str, str]] = []
            for engine in named:
                left = deadline - time.monotonic()
                if found or left <= 0:
                    break
                with _routed(self.gate, getattr(engine, "search_url", _SOMEWHERE)) as proxy:
                    asked = engine(proxy=proxy, timeout=max(1, round(left / 2)), verify=True)
                asked.http_client = _Watched(asked.http_client, self.gate, log)
                found = [vars(r) for r in _results(partial(asked.search, query, region=region), log)]
            return found[:limit]

        return ask

    # -- the packages through their front doors

    def _ddgs(self) -> Asker:
        """A ddgs without engines to be asked one by one."""
        make = importlib.import_module("ddgs").DDGS

        def ask(query: str, region: str, limit: int, deadline: float, log: Log) -> list[dict[str, str]]:
            timeout = max(1, round(deadline - time.monotonic()))
            with self.gate.permit("html.duckduckgo.com", 443, "search"):
                with _routed(self.gate, "https://html.duckduckgo.com/") as proxy:
                    search = make(proxy=proxy, timeout=timeout).text
                return _results(
                    lambda: search(query, region=region, max_results=limit, backend=self.backends), log, unclear=True
                )

        return ask

    def _duckduckgo_search(self) -> Asker:
        make = importlib.import_module("duckduckgo_search").DDGS

        def ask(query: str, region: str, limit: int, deadline: float, log: Log) -> list[dict[str, str]]:
            timeout = max(1, round(deadline - time.monotonic()))
            with self.gate.permit("www.bing.com", 443, "search"), _quiet():
                with _routed(self.gate, "https://www.bing.com/") as proxy:
                    search = make(proxy=proxy, timeout=timeout).text
                return _results(lambda: search(query, region=region, max_results=limit), log, unclear=True)

        return ask


_ENVIRONMENT = threading.Lock()


@contextmanager
def _routed(gate: Gate, url: str) -> Iterator[str | None]:
    """The proxy to make a client with. A client made without one looks into the environment by itself: meanwhile that
    says that there is none."""
    proxy = gate.proxies.of(*_place(url)) if gate.proxies is not None else None
    if proxy is not None:
        yield address_of(proxy)
        return
    with _ENVIRONMENT:
        before = {name: os.environ.get(name) for name in ("NO_PROXY", "no_proxy")}
        os.environ.update(dict.fromkeys(before, "*"))
        try:
            yield None
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


def _place(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


@contextmanager
def _quiet() -> Iterator[None]:
    """duckduckgo_search warns of its new name and sets the process's warning filter: both end here."""
    with warnings.catch_warnings(record=True):
        yield


class _Watched:
    """An engine's HTTP client: asks the gate before each request and each redirect, and notes how they ended."""

    def __init__(self, inner: Any, gate: Gate, log: Log) -> None:
        self._inner, self._gate, self._log = inner, gate, log

    @property
    def client(self) -> Any:
        return self._inner.client

    def request(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        response = self._one(method, url, *args, **kwargs)
        for _ in range(_MOST_REDIRECTS):
            target = _redirected(response)
            if not target:
                break
            url = urljoin(url, target)
            response = self._one("GET", url)
        self._log.append(Seen(response.status_code, response.text))
        return response

    def _one(self, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        _, host, port = _place(url)
        with self._gate.permit(host, port, "search") as use:
            response = self._inner.request(method, url, *args, follow_redirects=False, **kwargs)
            use.received = len(response.content)
            use.outcome = f"status {response.status_code}"
        return response

    def get(self, url: str, *args: Any, **kwargs: Any) -> Any:
        return self.request("GET", url, *args, **kwargs)

    def post(self, url: str, *args: Any, **kwargs: Any) -> Any:
        return self.request("POST", url, *args, **kwargs)


def _redirected(response: Any) -> str:
    """Where a reply sends on to; "" if nowhere."""
    headers = getattr(getattr(response, "_resp", None), "headers", None) or {}
    named = {str(name).lower(): str(value) for name, value in dict(headers).items()}
    return named.get("location", "") if response.status_code in (301, 302, 303, 307, 308) else ""


def _results(work: Callable[[], Any], log: Log, unclear: bool = False) -> list[Any]:
    """The results of one search; what it raises goes into the log. `unclear`: an empty list may be a refusal."""
    try:
        found = list(work() or ())
    except Refusal:
        raise
    except Exception as error:  # noqa: BLE001 - these packages let through whatever their parsers and sockets raise
        if isinstance(error.__cause__, Refusal):
            raise error.__cause__ from None
        log.append(Seen(error=f"{type(error).__name__} {type(error.args[0]).__name__ if error.args else ''}: {error}"))
        return []
    if unclear and not found:
        log.append(Seen(error="No results found."))
    return found


# -- what it came to -------------------------------------------------------------------------------------------------


def _reply(ask: Asker, query: str, region: str, limit: int, deadline: float) -> Reply:
    log: Log = []
    try:
        results = within(deadline, lambda: ask(query, region, limit, deadline, log))
    except TimeoutError:
        return Reply(failure=TIMED_OUT)
    except Refusal as refusal:
        return Reply(failure=refusal.failure, again="never")
    hits = [Hit(str(r.get("title", "")), str(r.get("href", "")), str(r.get("body", ""))) for r in results]
    reply = found(hits, limit)
    if reply.hits:
        return reply
    failure = judged(tuple(log))
    return Reply(failure=failure, again="soon" if failure == REFUSED else "later")


def judged(seen: tuple[Seen, ...]) -> Failure:
    """Why there are no results. One service that says so outweighs others that refused: there is nothing."""
    kinds = [_kind(s) for s in seen]
    for kind, failure in ((Trouble.EMPTY, EMPTY), (Trouble.REFUSED, REFUSED)):
        if kind in kinds:
            return failure
    if kinds and all(kind is Trouble.TIMEOUT for kind in kinds):
        return UNREACHABLE
    return UNCLEAR


def _kind(seen: Seen) -> Trouble | None:
    """What one reply means; None where it does not say."""
    if seen.error:
        return _kind_of_error(seen.error)
    if seen.status in _REFUSING or not seen.text.strip() or is_check(seen.text):
        return Trouble.REFUSED
    if seen.status >= 500:
        return Trouble.TIMEOUT
    return Trouble.EMPTY if seen.status == 200 and _NOTHING.search(seen.text) else None


def _kind_of_error(text: str) -> Trouble | None:
    """duckduckgo_search wraps everything in its base exception: the kind is in the words."""
    if re.search(r"ratelimit|\b(?:202|301|400|403|418|429)\b", text, re.I):
        return Trouble.REFUSED
    if re.search(r"time(?:d )?-?out|connect|dns|resolve|unreachable|error sending request|network", text, re.I):
        return Trouble.TIMEOUT
    return None
