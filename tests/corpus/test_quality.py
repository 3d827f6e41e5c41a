"""How good the ranking is, on public collections that lie beside the project (skipped where they do not).

Reached by plain FTS5 with stopwords out and the title weighted twice: .549 and .439; beside it and others, with figures
of speed: `make bench-corpus`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from tests.corpus.collections import Collection, chinese, cranfield, npl
from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document, Writer


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


def test_known_chinese_passages(data: Path, tmp_path: Path) -> None:
    known = chinese(data)
    with indexed(tmp_path / "x.sqlite", known.documents) as corpus:
        success = known.success(lambda query: found(corpus, query))
    least = {"frag": 0.957, "words3": 0.911, "word1": 0.23, "mixed": 0.934}
    assert {kind: success[kind] >= bound for kind, bound in least.items()} == dict.fromkeys(least, True)
