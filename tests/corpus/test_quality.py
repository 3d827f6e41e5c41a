"""How good the ranking is, on public collections that lie beside the project (skipped where they do not).

Reached by plain FTS5 with stopwords out and the title weighted twice: .549 and .439; beside it and others, with figures
of speed: `make bench-corpus`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

import pytest

from tests.corpus.collections import Collection, chinese, cranfield, npl
from venus_edge.corpus.frequency import Frequencies
from venus_edge.corpus.index import Corpus
from venus_edge.corpus.query import parse
from venus_edge.corpus.ranking import Ranking
from venus_edge.corpus.store import Document, Writer, connect_to_read


def indexed(path: Path, texts: Iterable[tuple[int, str, str]]) -> Corpus:
    with Writer(path) as writer, writer.batch():
        for number, title, text in texts:
            writer.put(Document(f"https://x.example/{number}", title, text))
    return Corpus(path)


def found(corpus: Corpus, query: str) -> list[int]:
    return [int(hit.url.rpartition("/")[2]) for hit in corpus.search(query).hits]


@pytest.fixture
def data(shared: Path) -> Path:
    folder = shared / "data"
    if not folder.is_dir():
        pytest.skip("the test collections are not here")
    return folder


@pytest.mark.parametrize(("read", "least"), [(cranfield, 0.549), (npl, 0.439)])
def test_english(data: Path, tmp_path: Path, read: Callable[[Path], Collection], least: float) -> None:
    collection = read(data)
    with indexed(tmp_path / "x.sqlite", collection.documents) as corpus:
        assert collection.ndcg(lambda query: found(corpus, query)) >= least


@pytest.mark.parametrize(("read", "least"), [(cranfield, 0.51), (npl, 0.41)])
def test_words_that_are_too_common_to_be_looked_for_still_rank(
    data: Path, tmp_path: Path, read: Callable[[Path], Collection], least: float
) -> None:
    collection, path = read(data), tmp_path / "x.sqlite"
    indexed(path, collection.documents).close()
    ranking = Ranking(frequencies=Frequencies(len(collection.documents) * 8 // 100))
    with closing(connect_to_read(path)) as db:

        def rank(query: str) -> list[int]:
            asked = parse(query)
            assert asked is not None
            return [number_of(db, passage) for passage in ranking.best(db, asked, 10)]

        assert collection.ndcg(rank) >= least


def number_of(db: sqlite3.Connection, passage: int) -> int:
    sql = "SELECT url FROM document JOIN passage ON document.id = document WHERE passage.id = ?"
    return int(db.execute(sql, (passage,)).fetchone()[0].rpartition("/")[2])


def test_known_chinese_passages(data: Path, tmp_path: Path) -> None:
    known = chinese(data)
    with indexed(tmp_path / "x.sqlite", known.documents) as corpus:
        success = known.success(lambda query: found(corpus, query))
    least = {"frag": 0.957, "words3": 0.911, "word1": 0.23, "mixed": 0.934}
    assert {kind: success[kind] >= bound for kind, bound in least.items()} == dict.fromkeys(least, True)
