"""Which words of a query are looked for in a large corpus, and which only rank what is found."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from venus_edge.corpus.frequency import LEAST, MOST, Frequencies
from venus_edge.corpus.query import parse
from venus_edge.corpus.ranking import Ranking
from venus_edge.corpus.store import Document, Writer, connect_to_read


@pytest.fixture
def db(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    """A hundred passages: every one has `common` and 灯塔, every tenth `rare`, one each `own7`."""
    with Writer(tmp_path / "x.sqlite") as writer, writer.batch():
        for n in range(100):
            text = f"common 灯塔 own{n} " + ("rare " if n % 10 == 0 else "") + f"word{n} " * n
            writer.put(Document(f"https://x.example/{n}", "", text))
    with closing(connect_to_read(tmp_path / "x.sqlite")) as connection:
        yield connection


def words(*each: str) -> list[str]:
    return [f'"{word}"' for word in each]


def test_where_all_fit_all_are_looked_for(db: sqlite3.Connection) -> None:
    asked = words("common", "rare", "own1", "own2")
    assert Frequencies(1_000).rarest(db, asked) == (asked, asked)


def test_common_words_are_not_looked_for_and_still_rank(db: sqlite3.Connection) -> None:
    asked = words("common", "rare", "own1", "own2", "灯塔")
    assert Frequencies(20).rarest(db, asked) == (
        words("rare", "own1", "own2"),
        words("common", "rare", "own1", "own2", "灯塔"),
    )


def test_words_that_are_nowhere_take_nobodys_place(db: sqlite3.Connection) -> None:
    asked = words("nowhere1", "nowhere2", "nowhere3", "nowhere4", "common")
    assert Frequencies(20).rarest(db, asked)[0] == words("common")
    assert Frequencies(20).rarest(db, words(*"abcdef"))[0] == words("a")


def test_of_very_many_the_rarest_that_are_there_are_taken(db: sqlite3.Connection) -> None:
    asked = words("common", *(f"nowhere{n}" for n in range(5_000)), *(f"word{n}" for n in range(100)))
    wanted, ranked = Frequencies(10_000).rarest(db, asked)
    assert (len(wanted), wanted == ranked, "common" in wanted[0]) == (100, True, True)
    assert len(ranked) <= MOST


@pytest.mark.parametrize("query", ["common rare own7 own8 own9", "common 灯塔 rare word20 nowhere"])
def test_what_has_a_word_that_is_looked_for_is_found(db: sqlite3.Connection, query: str) -> None:
    asked = parse(query)
    assert asked is not None
    few = Ranking(frequencies=Frequencies(20)).best(db, asked, 100, copies=True)
    every = Ranking(frequencies=Frequencies(10**6)).best(db, asked, 100, copies=True)
    wanted, _ = Frequencies(20).rarest(db, asked.tiers[-1].any)
    has = {n for (n,) in db.execute("SELECT rowid FROM words WHERE words MATCH ?", (" OR ".join(wanted),))}
    assert set(few) == has
    assert has <= set(every)
    assert LEAST <= len(wanted) <= len(asked.tiers[-1].any)
