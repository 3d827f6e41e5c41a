"""A corpus beside the web: hits ranked together, failures told apart, pages from the disk first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from venus_edge.corpus.shelf import Shelf
from venus_edge.values import Failure, Found, Hit, Page, Trouble

A, B, C = (Hit(name, f"https://example.org/{name}", "灯塔") for name in "abc")
EMPTY = Failure(Trouble.EMPTY, "No document has any of these words.")
REFUSED = Failure(Trouble.REFUSED, "search service refused: rate limit")
OFFLINE = Failure(Trouble.OFFLINE, "offline: the web is not searched")
UNKNOWN = Failure(Trouble.UNKNOWN, "", (A,))
LATE = Failure(Trouble.TIMEOUT, "timed out")


@dataclass
class Fake:
    """A place that gives the same to every query and address."""

    found: Found
    page: Page | Failure = UNKNOWN
    asked: list[str] = field(default_factory=list)

    def search_all(self, queries: Sequence[str], limit: int) -> list[Found]:
        self.asked.extend(queries)
        return [Found(query, self.found.hits, self.found.failure) for query in queries]

    def open(self, url: str) -> Page | Failure:
        self.asked.append(url)
        return self.page


def place(*hits: Hit, failure: Failure | None = None, page: Page | Failure = UNKNOWN) -> Fake:
    return Fake(Found("", hits, failure), page)


def test_hits_of_both_are_ranked_by_reciprocal_rank_each_address_once() -> None:
    shelf = Shelf([place(A, B), place(B, C)])
    assert shelf.search_all(["x", "灯塔"]) == (Found("x", (B, A, C)), Found("灯塔", (B, A, C)))
    assert shelf.search("x", 1) == Found("x", (B,))


@pytest.mark.parametrize(
    ("local", "web", "told"),
    [
        (place(A), place(failure=REFUSED), Found("x", (A,), REFUSED)),
        (place(A), place(failure=OFFLINE), Found("x", (A,))),
        (place(A), place(failure=EMPTY), Found("x", (A,))),
        (place(failure=EMPTY), place(B), Found("x", (B,))),
        (place(failure=EMPTY), place(failure=REFUSED), Found("x", failure=REFUSED)),
        (place(failure=EMPTY), place(failure=LATE), Found("x", failure=LATE)),
        (place(failure=EMPTY), place(failure=OFFLINE), Found("x", failure=OFFLINE)),
        (place(failure=EMPTY), place(failure=EMPTY), Found("x", failure=EMPTY)),
    ],
)
def test_what_could_not_be_asked_is_told_apart_from_what_has_nothing(local: Fake, web: Fake, told: Found) -> None:
    assert Shelf([local, web]).search("x") == told


def test_a_page_is_looked_for_on_the_disk_first() -> None:
    page = Page("https://example.org/a", "A", "灯塔", "0")
    local, web = place(page=page), place(page=LATE)
    assert (Shelf([local, web]).open("a"), web.asked) == (page, [])
    assert Shelf([place(), place(page=page)]).open("a") == page


def test_where_no_place_has_a_page_the_webs_reason_is_told_and_the_nearest_on_the_disk() -> None:
    assert Shelf([place(), place(page=LATE)]).open("x") == Failure(Trouble.TIMEOUT, "timed out", (A,))
