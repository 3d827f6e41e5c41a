"""A call with many queries or addresses: the first ones are done, and the model is told of the rest."""

from __future__ import annotations

import json
from collections.abc import Sequence

from venus_edge.tools import MOST
from venus_edge.tools.search import search
from venus_edge.tools.visit import visit
from venus_edge.values import Evidence, Failure, Found, Hit, Page, SearchCall, Trouble, VisitCall


class Noted:
    """A Searcher, Opener and Reader that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def search_all(self, queries: Sequence[str], limit: int) -> tuple[Found, ...]:
        self.asked.extend(queries)
        return tuple(Found(query, (Hit("灯塔", f"https://example.org/{query}", "s"),)) for query in queries)

    def open(self, url: str) -> Page | Failure:
        self.asked.append(url)
        return Page(url, "灯塔", "1916年首次点亮。", "0")

    def read(self, page: Page, goal: str) -> Evidence:
        return Evidence(page.text, page.text)


def test_queries_past_the_most_are_not_searched_and_the_model_is_told() -> None:
    world, queries = Noted(), tuple(f"q{n}" for n in range(MOST + 2))
    entries = json.loads(search(SearchCall(queries), world, "rl").text)
    assert world.asked == list(queries[:MOST])
    assert [entry["query"] for entry in entries] == list(queries)
    assert [entry.get("error") for entry in entries[MOST:]] == [
        "The query was left out. At most 5 queries a call: search for it in another one."
    ] * 2


def test_addresses_past_the_most_are_not_visited_and_the_model_is_told() -> None:
    world, urls = Noted(), tuple(f"https://example.org/{n}" for n in range(MOST + 1))
    result = visit(VisitCall(urls, "年份"), world, world, "rl", "?")
    assert sorted(world.asked) == list(urls[:MOST])
    outcome = result.readings[-1].outcome
    assert isinstance(outcome, Failure)
    assert outcome.trouble is Trouble.LEFT_OUT
    assert "At most 5 addresses a call" in result.text
