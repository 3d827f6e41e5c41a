"""Services in their order under one deadline; what was refused is left alone and never kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.clock import Clock
from venus_edge.sources.cache import Cache
from venus_edge.sources.provider import EMPTY, OFFLINE, REFUSED, TIMED_OUT, Provider, Reply, found, refused
from venus_edge.sources.search import Search
from venus_edge.tools import Searcher
from venus_edge.values import Failure, Found, Hit, Trouble

HIT = Hit("灯塔", "https://example.org/1", "text")
NO = Reply(failure=REFUSED, again="soon")
NONE = Reply(failure=EMPTY)
LATE = Reply(failure=TIMED_OUT)
YES = Reply((HIT,))


@dataclass
class Fake:
    """A service that gives these replies, the last one for ever."""

    name: str
    replies: list[Reply]
    whole_web: bool = True
    pause: float = 0.0
    asked: list[str] = field(default_factory=list)

    def ask(self, query: str, limit: int, deadline: float) -> Reply:
        self.asked.append(query)
        return self.replies[min(len(self.asked), len(self.replies)) - 1]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def search(clock: Clock, tmp_path: Path) -> Iterator[Callable[..., Search]]:
    with Cache(tmp_path) as cache:

        def make(*providers: Provider, seconds: float = 30.0, kept: bool = True, offline: bool = False) -> Search:
            return Search(
                providers,
                cache if kept else None,
                offline,
                seconds=seconds,
                clock=clock,
                sleep=clock.sleep,
                jitter=lambda: 1.0,
            )

        yield make


Make = Callable[..., Search]


def test_it_is_a_searcher(search: Make) -> None:
    searcher: Searcher = search(Fake("a", [YES]))
    assert searcher.search_all(["灯塔"], 10) == (Found("灯塔", (HIT,)),)


def test_the_next_is_asked_when_one_has_nothing_to_say(search: Make, clock: Clock) -> None:
    a, b, c = Fake("a", [NO]), Fake("b", [LATE]), Fake("c", [YES])
    assert search(a, b, c).search("x") == Found("x", (HIT,))
    assert ([len(f.asked) for f in (a, b, c)], clock.slept) == ([1, 1, 1], [])


def test_one_that_refused_is_left_alone_and_comes_back(search: Make, clock: Clock) -> None:
    a, b = Fake("a", [NO, YES]), Fake("b", [YES])
    searching = search(a, b, kept=False)
    searching.search("x")
    clock.now += 1
    searching.search("x")
    assert (len(a.asked), len(b.asked)) == (1, 2)
    clock.now += 2
    searching.search("x")
    assert (len(a.asked), len(b.asked)) == (2, 2)


def test_alone_it_is_asked_again_with_growing_pauses_and_then_left_for_minutes(search: Make, clock: Clock) -> None:
    a = Fake("a", [NO])
    searching = search(a)
    assert searching.search("x") == Found("x", failure=REFUSED)
    assert (len(a.asked), clock.slept) == (3, [2.0, 10.0])
    assert searching.search("y") == Found("y", failure=REFUSED)
    assert len(a.asked) == 3
    clock.now += 601
    searching.search("z")
    assert len(a.asked) == 4


def test_a_pause_that_the_service_asks_for_is_kept(search: Make, clock: Clock) -> None:
    a = Fake("a", [refused("rate limit", "soon", 7.0), YES])
    assert search(a).search("x").hits == (HIT,)
    assert clock.slept == [7.0]


def test_a_pause_that_there_is_no_time_for_is_not_made(search: Make, clock: Clock) -> None:
    a = Fake("a", [NO])
    assert search(a, seconds=5.0).search("x") == Found("x", failure=REFUSED)
    assert clock.slept == [2.0]


def test_a_wrong_key_is_not_tried_again(search: Make) -> None:
    a = Fake("a", [refused("it does not accept the key (401)", "never")])
    searching = search(a)
    expected = Failure(Trouble.REFUSED, "search service refused: it does not accept the key (401)")
    assert [searching.search(q).failure for q in "xyz"] == [expected] * 3
    assert len(a.asked) == 1


def test_nothing_found_counts_unless_only_a_part_of_the_web_was_searched(search: Make) -> None:
    part = Fake("wikipedia", [NONE], whole_web=False)
    assert search(Fake("a", [NONE]), part).search("1") == Found("1", failure=EMPTY)
    assert part.asked == []
    assert search(part).search("2") == Found("2", failure=EMPTY)
    assert search(Fake("b", [LATE]), part).search("3") == Found("3", failure=TIMED_OUT)


def test_several_failures_are_told_as_one(search: Make) -> None:
    a, b = Fake("serper", [refused("it does not accept the key (403)", "never")]), Fake("ddgs", [LATE])
    assert search(a, b).search("x").failure == Failure(
        Trouble.REFUSED,
        "no search service has results (serper: refused: it does not accept the key (403); "
        "ddgs: search timed out: the search service did not answer)",
    )


def test_results_are_kept_for_a_day_nothing_found_shortly_and_refusals_never(search: Make, clock: Clock) -> None:
    a = Fake("a", [YES, NONE, NO, YES])
    searching = search(a)
    assert [searching.search("x", 10).hits for _ in range(3)] == [(HIT,)] * 3
    assert [searching.search("none").failure for _ in range(3)] == [EMPTY] * 3
    assert a.asked == ["x", "none"]
    assert searching.search("later").hits == (HIT,)
    assert a.asked == ["x", "none", "later", "later"]
    clock.now += 90_000
    searching.search("x")
    assert len(a.asked) == 5


def test_other_services_or_numbers_are_another_search(search: Make) -> None:
    a, b = Fake("a", [YES]), Fake("b", [YES])
    search(a).search("x", 10)
    search(a).search("x", 5)
    search(b).search("x", 10)
    assert (len(a.asked), len(b.asked)) == (2, 1)


def test_offline_serves_what_is_kept_whatever_its_age(search: Make, clock: Clock) -> None:
    a = Fake("a", [YES])
    search(a).search("x")
    clock.now += 10**6
    offline = search(a, offline=True)
    assert [offline.search("x"), offline.search("y")] == [Found("x", (HIT,)), Found("y", failure=OFFLINE)]
    assert a.asked == ["x"]


def test_an_empty_query_is_no_search(search: Make) -> None:
    a = Fake("a", [YES])
    assert search(a).search(" ") == Found(" ", failure=Failure(Trouble.BAD_QUERY, "the query is empty"))
    assert a.asked == []


def test_a_service_that_hangs_leaves_time_for_the_others() -> None:
    class Hanging(Fake):
        def ask(self, query: str, limit: int, deadline: float) -> Reply:
            threading.Event().wait(5)
            return YES

    started = time.monotonic()
    searching = Search((Hanging("a", []), Fake("b", [YES])), seconds=1.0)
    assert searching.search("x") == Found("x", (HIT,))
    assert searching.search_all(["y"]) == (Found("y", (HIT,)),)
    assert time.monotonic() - started < 4


def test_several_queries_run_side_by_side_in_their_order() -> None:
    together = threading.Barrier(3)

    class Meeting(Fake):
        def ask(self, query: str, limit: int, deadline: float) -> Reply:
            together.wait(10)  # breaks unless all three are here at once
            return Reply((Hit(query, "https://example.org/", ""),))

    found = Search((Meeting("a", []),)).search_all(["x", "y", "z"])
    assert [(f.query, f.hits[0].title) for f in found] == [("x", "x"), ("y", "y"), ("z", "z")]


def test_refusals_of_queries_side_by_side_count_as_one(clock: Clock) -> None:
    together = threading.Barrier(3)

    class Refusing(Fake):
        def ask(self, query: str, limit: int, deadline: float) -> Reply:
            together.wait(10)
            return NO

    searching = Search((Refusing("a", []),), seconds=9.0, pauses=(100.0, 1000.0), clock=clock, jitter=lambda: 1.0)
    assert {f.failure for f in searching.search_all(["x", "y", "z"])} == {REFUSED}
    assert searching._health["a"].refusals == 1


def test_results_hold_each_address_once_and_only_web_addresses() -> None:
    hits = [HIT, Hit("again", HIT.url, ""), Hit("ftp", "ftp://example.org/", ""), Hit("", "", "")]
    hits.append(Hit("b", "http://b.example/", ""))
    assert found(hits, 10) == Reply((HIT, Hit("b", "http://b.example/", "")))
    assert found(hits, 1) == Reply((HIT,))
    assert found([], 10) == NONE
