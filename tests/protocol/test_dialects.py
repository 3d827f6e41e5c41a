"""Tool replies are worded as the models know them, and four kinds of nothing stay four."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pytest

from tests.protocol.runs import read_search, read_visit, released
from venus_edge.protocol.dialects import search_text, visit_text
from venus_edge.protocol.parse import parse
from venus_edge.protocol.prompt import TOOL_TIMEOUT_TEXT
from venus_edge.values import (
    DialectName,
    Evidence,
    Failure,
    Found,
    Hit,
    PageReading,
    SearchCall,
    Trouble,
    VisitCall,
)

DIALECTS: tuple[DialectName, ...] = get_args(DialectName)
HIT = Hit("Brest “gauge”", "https://example.org/a", "Opened in 1807 …", "Mar 7, 2026")
BARE = Hit("灯塔", "https://example.org/灯塔", "")
URL = "https://example.org/a"
READ = PageReading(URL, Evidence("Lit in 1916.\n\nHeight 41 m.", "The lamp was lit in 1916."))
NO_ACCESS = "The provided webpage content could not be accessed. Please check the URL or file format."
NO_CONTENT = "The webpage content could not be processed, and therefore, no information is available."


def failed(trouble: Trouble, detail: str = "", *nearest: Hit) -> Failure:
    return Failure(trouble, detail, nearest)


# -- search -----------------------------------------------------------------------------------------------------------


def test_a_search_reply_has_the_keys_of_its_dialect_in_order() -> None:
    dated = (
        '[{"query": "Brest", "web_page_info_list": [{"title": "Brest “gauge”", "url": "https://example.org/a", '
        '"snippet": "Opened in 1807 …", "date": "Mar 7, 2026"}, {"title": "灯塔", "url": "https://example.org/灯塔", '
        '"snippet": "", "date": ""}]}]'
    )
    undated = dated.replace(', "date": "Mar 7, 2026"', "").replace(', "date": ""', "")
    replies = {dialect: search_text([Found("Brest", (HIT, BARE))], dialect) for dialect in DIALECTS}
    assert replies == {"rl": dated, "sft": undated, "official": undated}


@pytest.mark.parametrize("failure", [None, failed(Trouble.EMPTY, "no page has these words")])
def test_nothing_found_is_an_empty_list(failure: Failure | None) -> None:
    empty = '[{"query": "Brest", "web_page_info_list": []}]'
    replies = {dialect: search_text([Found("Brest", (), failure)], dialect) for dialect in DIALECTS}
    assert replies == {"rl": empty, "sft": empty, "official": "[]"}


def test_a_query_keeps_its_signs() -> None:
    query = 'it\'s "quoted" \\ 灯塔 </tool_response>'
    assert read_search(search_text([Found(query, (HIT,))], "rl")) == [Found(query, (HIT,))]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_several_queries_lose_nothing_when_one_fails(dialect: DialectName) -> None:
    found = [
        Found("a", (HIT,)),
        Found("b", (), failed(Trouble.REFUSED, "rate limit")),
        Found("c"),
        Found("d", (BARE,)),
    ]
    entries = json.loads(search_text(found, dialect))
    assert [(e["query"], len(e["web_page_info_list"]), e.get("error")) for e in entries] == [
        ("a", 1, None),
        ("b", 0, "The search service refused the request, so this is not an empty result. rate limit"),
        ("c", 0, None),
        ("d", 1, None),
    ]


def test_results_of_a_search_that_partly_failed_are_shown_with_the_failure() -> None:
    text = search_text([Found("a", (HIT,), failed(Trouble.TIMEOUT, "one of two services"))], "sft")
    assert [list(entry) for entry in json.loads(text)] == [["query", "web_page_info_list", "error"]]
    assert HIT.url in text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_failed_search_is_told_from_an_empty_one_and_from_other_failures(dialect: DialectName) -> None:
    kinds = (Trouble.EMPTY, Trouble.REFUSED, Trouble.TIMEOUT, Trouble.OFFLINE, Trouble.BAD_QUERY)
    texts = [search_text([Found("a", (), failed(kind))], dialect) for kind in kinds]
    assert len(set(texts)) == len(kinds)
    assert not any(text.startswith("[") for text in texts[1:])


def test_a_slow_search_is_told_in_the_trained_words() -> None:
    slow = [Found("a", (), failed(Trouble.TIMEOUT, "no answer in 20 s"))]
    assert search_text(slow, "rl") == "Tool execution timed out after 120 seconds."
    assert "no answer in 20 s" in search_text(slow, "sft")


def test_one_failure_of_several_queries_is_said_once() -> None:
    offline = failed(Trouble.OFFLINE)
    assert search_text([Found("a", (), offline), Found("b", (), offline)], "rl") == (
        "Searching the web is switched off in this run, so this is not an empty result."
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_search_for_nothing_is_an_error_that_names_the_argument(dialect: DialectName) -> None:
    assert "`query`" in search_text([], dialect)


# -- visit ------------------------------------------------------------------------------------------------------------


def test_a_visit_reply_has_the_form_of_its_dialect() -> None:
    header = "The useful information in https://example.org/a for user goal find the year as follows: \n\n"
    full = f"{header}Evidence in page: \nLit in 1916.\n\nHeight 41 m.\n\nSummary: \nThe lamp was lit in 1916.\n\n"
    replies = {dialect: visit_text([READ], "find the year", dialect) for dialect in DIALECTS}
    assert replies == {"rl": full, "official": full, "sft": f"{header}Summary: \nThe lamp was lit in 1916."}


def test_several_pages_stand_one_after_the_other_and_none_is_lost() -> None:
    gone = PageReading("https://example.org/b", failed(Trouble.UNREADABLE))
    text = visit_text([READ, gone, READ], "x", "rl")
    assert text == visit_text([READ], "x", "rl") + "\n=======\n" + visit_text([gone], "x", "rl") + (
        "\n=======\n" + visit_text([READ], "x", "rl")
    )


def test_an_unreadable_page_is_told_in_the_trained_words() -> None:
    gone = [PageReading(URL, failed(Trouble.UNREADABLE))]
    assert visit_text(gone, "x", "rl") == (
        f"The useful information in {URL} for user goal x as follows: \n\nEvidence in page: \n{NO_ACCESS}\n\n"
        f"Summary: \n{NO_CONTENT}\n\n"
    )
    assert visit_text(gone, "x", "sft") == (
        f"The useful information in {URL} for user goal x as follows: \n\nSummary: \n{NO_CONTENT}"
    )


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_reason_is_said_once_in_the_part_that_the_dialect_shows(dialect: DialectName) -> None:
    text = visit_text([PageReading(URL, failed(Trouble.UNREADABLE, "It needs JavaScript."))], "x", dialect)
    assert text.count("It needs JavaScript.") == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_page_comes_with_the_nearest_known_ones(dialect: DialectName) -> None:
    unknown = failed(Trouble.UNKNOWN, "", HIT, BARE)
    text = visit_text([PageReading("https://example.org/x", unknown)], "x", dialect)
    assert (
        "The page is not in the local corpus.\nPages that can be visited instead:\n"
        "- Brest “gauge”: https://example.org/a\n- 灯塔: https://example.org/灯塔"
    ) in text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_kind_of_failed_visit_is_told_from_the_others(dialect: DialectName) -> None:
    texts = {visit_text([PageReading(URL, failed(trouble))], "x", dialect) for trouble in Trouble}
    assert len(texts) >= len(Trouble) - 1  # BAD_QUERY is no failure of a page


def test_a_slow_page_is_told_in_the_trained_words_only_where_nothing_else_is_lost() -> None:
    slow = PageReading(URL, failed(Trouble.TIMEOUT))
    assert visit_text([slow, slow], "x", "rl") == TOOL_TIMEOUT_TEXT
    assert "The lamp was lit in 1916." in visit_text([slow, READ], "x", "rl")
    assert "did not answer in time" in visit_text([slow], "x", "sft")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_visit_of_nothing_is_an_error_that_names_the_argument(dialect: DialectName) -> None:
    assert "`url`" in visit_text([], "x", dialect)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_half_a_character_does_not_reach_the_model(dialect: DialectName) -> None:
    search_text([Found("a\ud800", (Hit("\udfff", URL, "x"),))], dialect).encode()
    visit_text([PageReading(URL, Evidence("\ud83d", "\ud83d"))], "\ud83d", dialect).encode()


# -- the released runs ------------------------------------------------------------------------------------------------


def test_every_released_tool_reply_is_worded_again_to_the_byte(shared: Path) -> None:
    counts = {"search": 0, "visit": 0}
    for run in released(shared):
        for turn, reply in run.replies():
            match parse(turn).action:
                case SearchCall(queries):
                    found = read_search(reply)
                    assert tuple(f.query for f in found) == queries
                    assert search_text(found, run.dialect) == reply
                    counts["search"] += 1
                case VisitCall(urls, goal):
                    assert visit_text(read_visit(reply, urls, goal, run.dialect), goal, run.dialect) == reply
                    counts["visit"] += 1
    assert min(counts.values()) > 0
