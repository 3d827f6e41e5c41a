"""Refused, empty, out of reach, offline: four things, whatever the package says. The services here are on loopback."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ddgs.engines
import pytest

from tests.sources.loopback import Reply, Site, open_gate
from venus_edge.sources.ddgs import MISSING, UNCLEAR, Ddgs, Seen, judged
from venus_edge.sources.gate import Gate, Policy
from venus_edge.sources.language import named
from venus_edge.sources.provider import EMPTY, OFFLINE, REFUSED
from venus_edge.sources.search import Search
from venus_edge.values import Failure, Found, Hit, Trouble

RESULT = "<div class='body'><h2><a href='{url}'>{title}</a></h2><a href='{url}'>{body}</a></div>"
RESULTS = "".join(
    RESULT.format(url=f"https://example.org/{n}", title=f"灯塔 {n}", body=f"snippet {n}") for n in (1, 2, 1, 3)
)
HITS = tuple(Hit(f"灯塔 {n}", f"https://example.org/{n}", f"灯塔 {n}snippet {n}") for n in (1, 2, 3))


@pytest.fixture
def service(site: Site, monkeypatch: pytest.MonkeyPatch) -> Site:
    """DuckDuckGo and Mojeek on loopback."""
    for name in ("duckduckgo", "mojeek"):
        monkeypatch.setattr(ddgs.engines.ENGINES["text"][name], "search_url", site.url(f"/{name}"))
    return site


def searcher(slept: list[float] | None = None, seconds: float = 15.0, **settings: Any) -> Search:
    """The search with this service alone; pauses pass at once."""
    now = [1_800_000_000.0]

    def sleep(pause: float) -> None:
        now[0] += pause
        if slept is not None:
            slept.append(pause)

    ddgs = Ddgs(open_gate(), **{"backends": "duckduckgo", "pause": 0.0, **settings})
    return Search((ddgs,), seconds=seconds, clock=lambda: now[0], sleep=sleep, jitter=lambda: 1.0)


def put(site: Site, body: str, status: int = 200, name: str = "duckduckgo") -> None:
    site.pages[f"/{name}"] = Reply(body.encode(), status, {"Content-Type": "text/html; charset=utf-8"})


def outcome(search: Search, query: str = "灯塔") -> tuple[tuple[Hit, ...], Failure | None]:
    found = search.search(query, 10)
    assert found.query == query
    return found.hits, found.failure


def test_results_are_values_each_address_once(service: Site) -> None:
    put(service, f"<html><body>{RESULTS}</body></html>")
    hits, failure = outcome(searcher())
    assert failure is None
    assert [(h.title, h.url) for h in hits] == [(h.title, h.url) for h in HITS]
    assert all("snippet" in h.snippet for h in hits)


def test_no_more_results_than_asked_for(service: Site) -> None:
    put(service, f"<html><body>{RESULTS}</body></html>")
    assert len(searcher().search("x", 2).hits) == 2


REFUSALS = {
    "202": ("<html>anomaly</html>", 202),
    "429": ("", 429),
    "403": ("", 403),
    "418": ("teapot", 418),
    "a captcha": ("<html><body><h1>One last step</h1><div id='captcha'>Please solve</div></body></html>", 200),
    "a Chinese check": ("<html><body>请完成安全验证</body></html>", 200),
    "an empty page": ("", 200),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_is_a_refusal_and_is_tried_again_with_growing_pauses(service: Site, name: str) -> None:
    slept: list[float] = []
    put(service, *REFUSALS[name])
    assert outcome(searcher(slept)) == ((), REFUSED)
    assert (slept, len(service.asked)) == ([2.0, 10.0], 3)


def test_after_a_refusal_the_next_try_may_succeed(service: Site) -> None:
    replies = iter([Reply(b"", 429), Reply(f"<html><body>{RESULTS}</body></html>".encode())])
    service.pages["/duckduckgo"] = lambda headers: next(replies)
    assert len(outcome(searcher())[0]) == 3


def test_a_pause_that_the_deadline_has_no_room_for_is_not_made(service: Site) -> None:
    slept: list[float] = []
    put(service, "", 429)
    assert outcome(searcher(slept, 5.0)) == ((), REFUSED)
    assert slept == [2.0]


@pytest.mark.parametrize(
    "words",
    [
        "No results.",
        "No results found for “x”",
        "did not match any documents",
        "没有找到相关结果",
        "見つかりませんでした",
    ],
)
def test_nothing_found_is_told_only_where_the_service_says_so(service: Site, words: str) -> None:
    put(service, f"<html><body><div>{words}</div></body></html>")
    assert outcome(searcher()) == ((), EMPTY)
    assert len(service.asked) == 1


def test_a_page_that_says_neither_is_not_called_empty(service: Site) -> None:
    put(service, "<html><body><p>Welcome to our new design</p></body></html>")
    assert outcome(searcher()) == ((), UNCLEAR)


def test_the_next_service_is_asked_when_one_refuses(service: Site) -> None:
    put(service, "", 403)
    put(
        service,
        "<ul class='results'><li><h2><a href='https://example.org/1'>One</a></h2><p class='s'>text</p></li></ul>",
        name="mojeek",
    )
    hits, failure = outcome(searcher(backends="duckduckgo,mojeek"))
    assert failure is None
    assert [h.url for h in hits] == ["https://example.org/1"]
    assert [path.partition("?")[0] for path in service.asked] == ["/duckduckgo", "/mojeek"]


def test_a_service_that_is_not_there_is_out_of_reach(service: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with Site() as gone:
        url = gone.url("/")
    monkeypatch.setattr(ddgs.engines.ENGINES["text"]["duckduckgo"], "search_url", url)
    _, failure = outcome(searcher())
    assert failure is not None
    assert failure.trouble is Trouble.TIMEOUT


def test_a_service_that_hangs_does_not_stretch_the_deadline(service: Site) -> None:
    def hang(headers: dict[str, str]) -> Reply:
        time.sleep(2)
        return Reply(b"")

    service.pages["/duckduckgo"] = hang
    started = time.monotonic()
    _, failure = outcome(searcher(seconds=0.5))
    assert failure is not None
    assert failure.trouble is Trouble.TIMEOUT
    assert time.monotonic() - started < 1.5


HANGS = """
import threading, sys, types
module = types.ModuleType("ddgs")
class DDGS:
    def __init__(self, **kwargs): pass
    def text(self, query, **kwargs): threading.Event().wait()
module.DDGS = DDGS
sys.modules["ddgs"] = module
from venus_edge.sources.ddgs import Ddgs
from venus_edge.sources.gate import Gate
from venus_edge.sources.search import Search
print(*{f.failure.trouble.name for f in Search((Ddgs(Gate()),), seconds=0.3).search_all(["x", "y"], 10)})
"""


def test_the_process_exits_though_a_search_hangs() -> None:
    done = subprocess.run(
        [sys.executable, "-c", HANGS],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "TIMEOUT\n"


def test_the_ledger_knows_each_request_to_a_service(service: Site) -> None:
    put(service, f"<html><body>{RESULTS}</body></html>")
    search = searcher()
    search.search("灯塔", 10)
    provider = search.providers[0]
    assert isinstance(provider, Ddgs)
    (entry,) = provider.gate.ledger.entries
    assert (entry.host, entry.port, entry.purpose, entry.outcome) == ("127.0.0.1", service.port, "search", "status 200")
    assert entry.received > 100


def test_a_service_on_a_private_address_is_not_asked_unless_allowed(service: Site) -> None:
    _, failure = outcome(Search((Ddgs(Gate(), backends="duckduckgo"),)))
    assert failure is not None
    assert failure.trouble is Trouble.BAD_ADDRESS
    assert service.asked == []


def test_an_empty_query_is_no_search(service: Site) -> None:
    assert searcher().search(" ", 10) == Found(" ", failure=Failure(Trouble.BAD_QUERY, "the query is empty"))
    assert service.asked == []


def test_the_query_and_the_region_are_sent_as_they_are(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[str, str]] = []

    class Engine:
        def __init__(self, **settings: object) -> None:
            self.http_client = None

        def search(self, query: str, region: str) -> list[object]:
            sent.append((query, region))
            return []

    monkeypatch.setitem(ddgs.engines.ENGINES["text"], "fake", Engine)
    for query, region in (('"灯塔" site:example.org', ""), ("灯塔", "tw-tzh"), ("маяк", "")):
        searcher(backends="fake", market=named(region)).search(query, 10)
    assert sent == [('"灯塔" site:example.org', "cn-zh"), ("灯塔", "tw-tzh"), ("маяк", "ru-ru")]


# -- which package ---------------------------------------------------------------------------------------------------


def install(monkeypatch: pytest.MonkeyPatch, text: Callable[..., object], name: str = "duckduckgo_search") -> None:
    """Puts a package in the place of those that are installed."""
    module = types.ModuleType(name)

    class DDGS:
        def __init__(self, **settings: object) -> None:
            if name == "duckduckgo_search":  # what 8.1.1 does
                warnings.simplefilter("always")
                warnings.warn("This package has been renamed to `ddgs`!", RuntimeWarning, stacklevel=2)

        def text(self, *words: object, **settings: object) -> object:
            return text(*words, **settings)

    module.__dict__["DDGS"] = DDGS
    for other in ("ddgs", "ddgs.engines", "duckduckgo_search"):
        monkeypatch.setitem(sys.modules, other, None)
    monkeypatch.setitem(sys.modules, name, module)


def test_offline_imports_no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is imported")

    monkeypatch.setattr(importlib, "import_module", refuse)
    assert Search((Ddgs(Gate(Policy(offline=True))),), offline=True).search("x", 10) == Found("x", failure=OFFLINE)


def test_without_a_package_the_failure_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ddgs", "ddgs.engines", "duckduckgo_search"):
        monkeypatch.setitem(sys.modules, name, None)
    assert searcher().search("x", 10) == Found("x", failure=MISSING)


def test_the_old_package_serves_without_its_warning_and_its_filter(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[tuple[object, ...], dict[str, object]]] = []

    def text(*words: object, **settings: object) -> object:
        asked.append((words, settings))
        return [{"title": "灯塔", "href": "https://example.org/", "body": "text"}]

    install(monkeypatch, text)
    before = list(warnings.filters)
    found = searcher().search("灯塔", 10)
    assert found == Found("灯塔", (Hit("灯塔", "https://example.org/", "text"),))
    assert asked == [(("灯塔",), {"region": "cn-zh", "max_results": 10})]
    assert list(warnings.filters) == before


class RatelimitException(Exception):
    """As duckduckgo_search wraps it."""


WRAPPED = {
    "https://www.bing.com/search 202 Ratelimit": REFUSED,
    "https://www.bing.com/search return None. 429": REFUSED,
    "No results found.": UNCLEAR,
}


@pytest.mark.parametrize("words", WRAPPED)
def test_a_refusal_is_known_though_the_package_wraps_it(monkeypatch: pytest.MonkeyPatch, words: str) -> None:
    def text(*_: object, **__: object) -> object:
        raise ValueError(words)

    install(monkeypatch, text)
    assert outcome(searcher()) == ((), WRAPPED[words])


def test_a_wrapped_exception_is_known_by_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    def text(*_: object, **__: object) -> object:
        raise ValueError(RatelimitException("slow down"))

    install(monkeypatch, text)
    assert outcome(searcher()) == ((), REFUSED)


def test_an_empty_list_of_the_package_may_be_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, lambda *_, **__: [])
    assert outcome(searcher()) == ((), UNCLEAR)
    install(monkeypatch, lambda *_, **__: [], "ddgs")
    assert outcome(searcher()) == ((), UNCLEAR)


# -- judging ---------------------------------------------------------------------------------------------------------

JUDGED = [
    ((), UNCLEAR),
    ((Seen(200, "No results."),), EMPTY),
    ((Seen(429), Seen(200, "No results.")), EMPTY),
    ((Seen(error="TimeoutException: operation timed out"), Seen(202, "x")), REFUSED),
    (
        (Seen(error="x: error sending request"), Seen(502, "x")),
        Failure(Trouble.TIMEOUT, "search service timed out or is unreachable"),
    ),
    ((Seen(error="ParserError: Document is empty"),), UNCLEAR),
]


@pytest.mark.parametrize("case", range(len(JUDGED)))
def test_what_was_seen_is_judged(case: int) -> None:
    seen, failure = JUDGED[case]
    assert judged(seen) == failure
