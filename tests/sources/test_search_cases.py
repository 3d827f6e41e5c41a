"""The kinds of cases S01 to S06 of web search, in words of our own: one table, kind -> what is told.

`make bench-web` prints it. Services are on loopback; what is told is told apart for the model and for the person.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.sources.loopback import Reply, Site, open_gate
from tests.support.clock import Clock
from venus_edge.cli.view import found_lines
from venus_edge.sources.ddgs import Ddgs
from venus_edge.sources.gate import Gate, Policy
from venus_edge.sources.provider import Provider
from venus_edge.sources.provider import Reply as Said
from venus_edge.sources.search import Search
from venus_edge.sources.searxng import SearXNG
from venus_edge.tools.search import search
from venus_edge.values import Found, Hit, SearchCall, ToolResult

CHECK = "<html><body><h1>Are you a robot?</h1><form id='challenge-form'></form></body></html>"
DDG_HIT = "<div class='body'><h2>{0}</h2><a href='https://example.org/{0}'>{0} text</a></div>"


@contextmanager
def duckduckgo(body: str, status: int = 200) -> Iterator[tuple[Site, Ddgs]]:
    """The ddgs package with DuckDuckGo on loopback."""
    from ddgs.engines import ENGINES

    engine = ENGINES["text"]["duckduckgo"]
    before = engine.search_url
    with Site() as site:
        site.pages["/html/"] = Reply(body.encode(), status, {"Content-Type": "text/html; charset=utf-8"})
        engine.search_url = site.url("/html/")
        try:
            yield site, Ddgs(open_gate(), backends="duckduckgo", pause=0.0)
        finally:
            engine.search_url = before


@contextmanager
def searxng(body: str, status: int = 200, **headers: str) -> Iterator[tuple[Site, SearXNG]]:
    with Site() as site:
        site.pages["/search"] = Reply(body.encode(), status, headers)
        yield site, SearXNG(open_gate(), site.url("/"))


def asked(providers: Sequence[Provider], *queries: str, seconds: float = 15.0, offline: bool = False) -> ToolResult:
    clock = Clock()
    searching = Search(
        tuple(providers), None, offline, seconds=seconds, clock=clock, sleep=clock.sleep, jitter=lambda: 1.0
    )
    return search(SearchCall(queries or ("灯塔 lighthouse",)), searching, "rl")


def told(found: Found) -> str:
    return f"{len(found.hits)} results" if found.hits else found.failure.trouble.value if found.failure else "?"


def of_ddgs(body: str, status: int = 200) -> Callable[[], str]:
    def outcome() -> str:
        with duckduckgo(body, status) as (_, provider):
            return told(asked([provider]).found[0])

    return outcome


def of_searxng(body: str, status: int = 200, **headers: str) -> Callable[[], str]:
    def outcome() -> str:
        with searxng(body, status, **headers) as (_, provider):
            return told(asked([provider], seconds=5.0).found[0])

    return outcome


def next_is_asked() -> str:
    hits = json.dumps({"results": [{"title": "灯塔", "url": "https://example.org/", "content": "s"}]})
    with ExitStack() as stack:
        refusing = stack.enter_context(duckduckgo("", 429))[1]
        _, answering = stack.enter_context(searxng(hits))
        return told(asked([refusing, answering]).found[0])


def pauses() -> str:
    clock = Clock()
    with duckduckgo("", 429) as (site, provider):
        Search((provider,), seconds=30.0, clock=clock, sleep=clock.sleep, jitter=lambda: 1.0).search("x")
        return f"{len(site.asked)} tries, pauses {clock.slept}"


WITHOUT = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("ddgs", "duckduckgo_search"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Absent())
from venus_edge.sources.ddgs import Ddgs
from venus_edge.sources.gate import Gate
from venus_edge.sources.search import Search
print(Search((Ddgs(Gate()),), seconds=2.0).search("x").failure.detail)
"""


def without_a_package() -> str:
    return subprocess.run([sys.executable, "-c", WITHOUT], capture_output=True, text=True, check=True).stdout.strip()


class Hanging:
    """A service that never answers a query with "hang" in it."""

    name, whole_web, pause = "hanging", True, 0.0

    def ask(self, query: str, limit: int, deadline: float) -> Said:
        if "hang" in query:
            threading.Event().wait(60)
        return Said((Hit(query, "https://example.org/", ""),))


def hangs() -> str:
    return ", ".join(told(found) for found in asked([Hanging()], "a hang", "灯塔", "hang", seconds=1.0).found)


QUERIES = {
    "杭州湾 潮汐 历史记录": "zh-CN", "灯台のしくみ": "ja-JP", "図書館 開館": "ja-JP", "부산 등대 높이": "ko-KR",
    "oldest lighthouse in Brittany": "en-US", "Straßenkarte Leuchtturm": "de-DE", "высота маяка": "ru-RU",
    'site:example.org "exact words" -not filetype:pdf': "en-US", "NGC 1300 距离 light years": "zh-CN",
}  # fmt: skip


def markets() -> str:
    with searxng('{"results": []}') as (site, provider):
        for query in QUERIES:
            asked([provider], query)
        seen = [parse_qs(urlsplit(path).query) for path in site.asked]
        right = [
            s["q"] == [query] and s["language"] == [QUERIES[query]] for s, query in zip(seen, QUERIES, strict=True)
        ]
        return f"{sum(right)} of {len(QUERIES)} in the market of their script, unchanged"


AWKWARD = [
    Hit('Keeper\'s "log" \\ </tool_response>', "https://example.org/a?x=1&y='2'", "line\none\ttab 灯塔\u2028", "1916"),
    Hit("", "https://example.org/b", ""),
    Hit("No results found. Timeout", "https://example.org/c", '\'snippet\': {"url": "x"}'),
]


def awkward() -> str:
    results = [{"title": h.title, "url": h.url, "content": h.snippet, "publishedDate": h.date or None} for h in AWKWARD]
    with searxng(json.dumps({"results": [*results, results[0]]})) as (_, provider):
        (entry,) = json.loads(asked([provider], 'keeper\'s "log"').text)
    same = entry["web_page_info_list"] == [
        {"title": h.title, "url": h.url, "snippet": h.snippet, "date": h.date} for h in AWKWARD
    ]
    return f"{len(AWKWARD)} values unchanged, once each" if same and entry["query"] == 'keeper\'s "log"' else str(entry)


def offline() -> str:
    gate = Gate(Policy(offline=True), resolver=lambda host, port: pytest.fail("a name was resolved"))
    return told(asked([Ddgs(gate), SearXNG(gate, "http://127.0.0.1:9")], offline=True).found[0])


def ledger_of_offline() -> str:
    gate = Gate(Policy(offline=True))
    return f"{told(asked([SearXNG(gate, 'http://127.0.0.1:9')]).found[0])}, {len(gate.ledger.entries)} attempt refused"


REFUSED, EMPTY, LATE = "refused", "nothing found", "timed out or unreachable"
TABLE: list[tuple[str, str, Callable[[], str], str]] = [  # case, kind, what is done, what comes of it
    ("S01", "ddgs: 202 with an anomaly page", of_ddgs("<html>anomaly detected</html>", 202), REFUSED),
    ("S01", "ddgs: 429", of_ddgs("", 429), REFUSED),
    ("S01", "ddgs: 403", of_ddgs("", 403), REFUSED),
    ("S01", "ddgs: 418", of_ddgs("teapot", 418), REFUSED),
    ("S01", "ddgs: a check page with status 200", of_ddgs(CHECK), REFUSED),
    ("S01", "ddgs: a check page in Chinese", of_ddgs("<p>请完成人机验证后继续</p>"), REFUSED),
    ("S01", "ddgs: an empty body", of_ddgs(""), REFUSED),
    ("S01", "ddgs: says that it has nothing", of_ddgs("<p>No results found for x.</p>"), EMPTY),
    ("S01", "ddgs: says so in Chinese", of_ddgs("<p>没有找到相关结果</p>"), EMPTY),
    ("S01", "ddgs: two results", of_ddgs(DDG_HIT.format("灯塔") + DDG_HIT.format("b")), "2 results"),
    ("S01", "ddgs: 500", of_ddgs("oops", 500), LATE),
    ("S01", "SearXNG: 429 from its limiter", of_searxng("Too Many Requests", 429), REFUSED),
    ("S01", "SearXNG: JSON switched off (403)", of_searxng("<html>", 403), REFUSED),
    ("S01", "SearXNG: a check page for JSON", of_searxng(CHECK), REFUSED),
    ("S01", "SearXNG: no results", of_searxng('{"results": []}'), EMPTY),
    ("S01", "SearXNG: its engines did not answer",
     of_searxng('{"results": [], "unresponsive_engines": [["google", "timeout"]]}'), LATE),
    ("S01", "refused: the next service is asked", next_is_asked, "1 results"),
    ("S01", "refused: asked again, pauses growing", pauses, "3 tries, pauses [2.0, 10.0]"),
    ("S02", "neither package is installed", without_a_package,
     "web search is not installed: pip install ddgs (search in a local corpus works without it)"),
    ("S03", "two of three queries hang", hangs, f"{LATE}, 1 results, {LATE}"),
    ("S04", "market by script, operators unchanged", markets, "9 of 9 in the market of their script, unchanged"),
    ("S05", "quotes, tags, line ends, no snippet, twice", awkward, "3 values unchanged, once each"),
    ("S06", "offline: no name resolved, nothing connected", offline, "offline"),
    ("S06", "offline: the gate refuses what asks all the same", ledger_of_offline, "offline, 1 attempt refused"),
]  # fmt: skip


@pytest.mark.parametrize(("case", "kind", "done", "expected"), TABLE, ids=[f"{row[0]} {row[1]}" for row in TABLE])
def test_each_kind_is_told_for_what_it_is(case: str, kind: str, done: Callable[[], str], expected: str) -> None:
    assert done() == expected


FIVE = {  # reply of the service -> how the text for the model begins or what it holds, the person's line
    "results": ('{"results": [{"title": "灯塔", "url": "https://example.org/", "content": "s"}]}', 200),
    "nothing found": ('{"results": []}', 200),
    "refused": ("", 429),
    "unreachable": ("", 503),
    "offline": ("", 200),
}
TOLD = {
    "results": ('"web_page_info_list": [{"title": "灯塔"', "1 result: 灯塔"),
    "nothing found": ('"web_page_info_list": []', "nothing found"),
    "refused": ("The search service refused the request, so this is not an empty result.", "refused: rate limit"),
    "unreachable": ("Tool execution timed out", "timed out or unreachable: search service has an error (503)"),
    "offline": ("Searching the web is switched off in this run, so this is not an empty result.", "offline: the web"),
}


def five(outcome: str) -> tuple[str, str]:
    """What model and person are told of an outcome."""
    with searxng(*FIVE[outcome]) as (_, provider):
        result = asked([provider], seconds=3.0, offline=outcome == "offline")
    return result.text, "; ".join(found_lines(result.found[0]))


@pytest.mark.parametrize("outcome", FIVE)
def test_five_outcomes_are_told_apart_to_the_model_and_to_the_person(outcome: str) -> None:
    model, person = five(outcome)
    assert TOLD[outcome][0] in model
    assert TOLD[outcome][1] in person
    others = [told for name, told in TOLD.items() if name != outcome]
    assert not any(words in model or line in person for words, line in others)
