"""A call in, the text for the model out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Barrier

import pytest

from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document, Writer
from venus_edge.tools import Tools
from venus_edge.tools.evidence import ExtractiveReader
from venus_edge.tools.toolbox import Toolbox
from venus_edge.values import (
    DialectName,
    Evidence,
    Failure,
    Found,
    Hit,
    Page,
    PageReading,
    SearchCall,
    Source,
    ToolResult,
    Trouble,
    VisitCall,
)

KEREON = Page("https://x.example/kereon", "Kereon", "The Kereon light is old. It is 41 metres high.", "ab12")
EMPTY = Page("https://x.example/empty", "Empty", " \n", "cd34")
NOTED = Page("https://x.example/noted", "Noted", "It is 42 metres high.", "ef56", note="copy of 2026-11-02")
UNKNOWN = Failure(Trouble.UNKNOWN, "", (Hit("Kereon", KEREON.url, ""),))
HITS = tuple(Hit(f"Page {i}", f"https://x.example/{i}", "Snippet.") for i in range(12))


@dataclass
class World:
    """A Searcher and an Opener over three pages, which remembers what it was asked."""

    asked: list[str] = field(default_factory=list)
    meeting: Barrier | None = None

    def search_all(self, queries: Sequence[str], limit: int) -> tuple[Found, ...]:
        return tuple(self._search(query) for query in queries)

    def _search(self, query: str) -> Found:
        self.asked.append(query)
        if query == "nothing":
            return Found(query, failure=Failure(Trouble.EMPTY, "Nothing."))
        return Found(query, (HITS[0], *HITS))

    def open(self, url: str) -> Page | Failure:
        if self.meeting:
            self.meeting.wait(timeout=10)
        return {page.url: page for page in (KEREON, EMPTY, NOTED)}.get(url, UNKNOWN)


def toolbox(world: World, dialect: DialectName = "rl", results: int = 10) -> Toolbox:
    return Toolbox(world, world, ExtractiveReader(), dialect, results)


def entry(query: str, count: int) -> dict[str, object]:
    pages = [{"title": h.title, "url": h.url, "snippet": h.snippet, "date": ""} for h in HITS[:count]]
    return {"query": query, "web_page_info_list": pages}


def test_queries_are_answered_in_their_order_each_page_once_a_query() -> None:
    result = toolbox(World(), results=3).call(SearchCall(("tide", "nothing", "gauge")), "q")
    assert json.loads(result.text) == [entry("tide", 3), entry("nothing", 0), entry("gauge", 3)]
    assert result.found == (
        Found("tide", HITS[:3]),
        Found("nothing", failure=Failure(Trouble.EMPTY, "Nothing.")),
        Found("gauge", HITS[:3]),
    )


@pytest.mark.parametrize("queries", [(), ("",), (" ", "\n")])
def test_an_empty_query_is_told_and_not_searched(queries: tuple[str, ...]) -> None:
    world = World()
    result = toolbox(world).call(SearchCall(queries), "q")
    assert "`query` must" in result.text
    assert (world.asked, [found.hits for found in result.found]) == ([], [()] * len(queries))


HEADER = "The useful information in {} for user goal {} as follows: \n\n"


def test_pages_are_read_in_the_calls_order_and_are_sources_where_they_were_read() -> None:
    urls = (KEREON.url, "https://x.example/nowhere", EMPTY.url)
    result = toolbox(World()).call(VisitCall(urls, "height"), "q")
    assert [(r.url, type(r.outcome)) for r in result.readings] == [
        (KEREON.url, Evidence), (urls[1], Failure), (EMPTY.url, Failure)
    ]  # fmt: skip
    blocks = result.text.split("\n=======\n")
    assert [block.partition("Evidence")[0] for block in blocks] == [HEADER.format(url, "height") for url in urls]
    assert "Kereon: https://x.example/kereon" in blocks[1]
    assert result.sources == (Source(KEREON.url, "Kereon", "ab12"),)


def test_a_visit_in_the_sft_dialect_is_the_summary_alone() -> None:
    result = toolbox(World(), "sft").call(VisitCall((KEREON.url,), "how high is it"), "q")
    read = Evidence(KEREON.text, "It is 41 metres high.")
    text = HEADER.format(KEREON.url, "how high is it") + "Summary: \nIt is 41 metres high."
    assert result == ToolResult(text, readings=(PageReading(KEREON.url, read, KEREON),))


@pytest.mark.parametrize("goal", ["", "  \n"])
def test_the_question_stands_in_for_a_goal_left_out(goal: str) -> None:
    result = toolbox(World(), "sft").call(VisitCall((KEREON.url,), goal), "how old is it")
    assert result.text == HEADER.format(KEREON.url, "how old is it") + "Summary: \nThe Kereon light is old."


def test_what_is_known_of_a_copy_is_said_after_the_evidence() -> None:
    result = toolbox(World()).call(VisitCall((NOTED.url,), "height"), "q")
    assert result.readings[0].outcome == Evidence(
        "It is 42 metres high.\n\n(Note: copy of 2026-11-02.)", "It is 42 metres high."
    )


def test_an_address_given_twice_is_read_once_and_none_at_all_is_told() -> None:
    assert len(toolbox(World()).call(VisitCall((KEREON.url, KEREON.url), "g"), "q").readings) == 1
    assert "`url` must" in toolbox(World()).call(VisitCall((), "g"), "q").text


def test_a_corpus_is_a_searcher_and_an_opener(tmp_path: Path) -> None:
    with Writer(tmp_path / "x.sqlite") as writer, writer.batch():
        writer.put(Document(KEREON.url, KEREON.title, KEREON.text))
    with Corpus(tmp_path / "x.sqlite") as corpus:
        tools: Tools = Toolbox(corpus, corpus, ExtractiveReader(), "sft")
        text = tools.call(SearchCall(("how high is Kereon",)), "q").text
        assert json.loads(text)[0]["web_page_info_list"] == [
            {"title": "Kereon", "url": KEREON.url, "snippet": KEREON.text}
        ]
        text = tools.call(VisitCall(("x.example/kereon#height",), "how high is it"), "q").text
        assert text.endswith("Summary: \nIt is 41 metres high.")


def test_pages_are_opened_side_by_side() -> None:
    world = World(meeting=Barrier(3))
    urls = (KEREON.url, EMPTY.url, NOTED.url)
    assert [r.url for r in toolbox(world).call(VisitCall(urls, "g"), "q").readings] == list(urls)
