"""Addresses of links are neither ranked nor quoted; the links that speak of the goal are told after the summary."""

from __future__ import annotations

import time

import pytest

from venus_edge import terms
from venus_edge.tools.evidence import GAP, ExtractiveReader, shown
from venus_edge.tools.leads import MOST, leads
from venus_edge.tools.visit import visit
from venus_edge.values import Evidence, Failure, Page, VisitCall

TEXTS = {  # Markdown -> what a reader sees
    "The [Kereon light](https://example.org/kereon) is old.": "The Kereon light is old.",
    "见[克雷翁灯塔](https://zh.example.org/wiki/灯塔_(法国) \"标题\")。": "见克雷翁灯塔。",
    "[[1]](https://example.org/n#1) and [a](</b c> d)": "[1] and [a](</b c> d)",
    "![A lamp](https://example.org/lamp.png)": "A lamp",
    "[a](b.md) [c](#d) [](https://example.org/)": "a c ",
    "f[i](x) stays, and a [note] (aside)": "f[i](x) stays, and a [note] (aside)",
    "```\n[a](https://example.org/)\n```\n[b](https://example.org/)": "```\n[a](https://example.org/)\n```\nb",
    "https://example.org/bare stays": "https://example.org/bare stays",
}  # fmt: skip


@pytest.mark.parametrize("markdown", TEXTS)
def test_a_reader_sees_words_and_no_addresses(markdown: str) -> None:
    assert terms.unlinked(markdown) == TEXTS[markdown]


@pytest.mark.parametrize(
    "text", ["[" * 200_000, "[a](" * 100_000, "[a](b(" * 50_000, "```\n" * 100_000, "[](" * 99_999]
)
def test_no_text_makes_it_slow(text: str) -> None:
    began = time.process_time()
    terms.unlinked(text)
    assert time.process_time() - began < 5


def linked(count: int) -> str:
    """Passages about weather whose links have the goal's words in their addresses only."""
    return "\n\n".join(
        f"Note {i} tells of [weather](https://example.org/height-of-the-tower-{i}) and of nothing else at all."
        for i in range(count)
    )


@pytest.mark.parametrize(
    ("fact", "goal"),
    [
        ("The [tower](https://example.org/t) measures 41 metres in height.", "height of the tower"),
        ("[灯塔](https://example.org/t)高度为四十一米。", "灯塔的高度"),
    ],
)
def test_addresses_do_not_outrank_words_and_quotes_stand_in_what_is_shown(fact: str, goal: str) -> None:
    page = Page("https://example.org/p", "Notes", f"{linked(60)}\n\n{fact}\n\n{linked(60)}", "0")
    read = ExtractiveReader(600).read(page, goal)
    assert terms.unlinked(fact) == read.summary
    assert all(quote in shown(page).text for quote in read.evidence.split(GAP))
    assert "https://" not in read.evidence


class Opened:
    """An Opener of one page."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def open(self, url: str) -> Page | Failure:
        return self.page


def test_the_links_that_speak_of_the_goal_follow_the_summary() -> None:
    text = "See [tides of Brest](https://example.org/tides#x), [contact](https://example.org/c) and [tides](#here)."
    page = Page("https://example.org/p", "Index", text, "0")
    outcome = visit(VisitCall((page.url,), "tides of Brest"), Opened(page), ExtractiveReader(), "rl", "?").readings[0]
    assert outcome.outcome == Evidence(
        "See tides of Brest, contact and tides.",
        "See tides of Brest, contact and tides.\n\nLinks there:\n- tides of Brest: https://example.org/tides#x",
    )


def test_few_links_are_told_the_best_first_each_once() -> None:
    index = "".join(f"- [第{n}篇：潮汐](https://example.org/{n})\n" for n in range(9))
    text = (
        index + "[潮汐与灯塔](https://example.org/both) [潮汐](https://example.org/0) [潮汐](https://example.org/p#a)"
    )
    page = Page("https://example.org/p", "", text, "0")
    found = leads(page, shown(page).text, "潮汐 灯塔")
    assert len(found) == MOST
    assert found[0] == ("潮汐与灯塔", "https://example.org/both")
    assert leads(page, "", "潮汐") == []
