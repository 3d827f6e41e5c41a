"""How good the ranking is, on public collections that lie beside the project (skipped where they do not).

nDCG@10 with gains 2^grade - 1 on Cranfield, binary on NPL; success@10 for known Chinese passages. Reached by plain FTS5
with stopwords out and the title weighted twice: .549 and .439.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from venus_edge.corpus.index import Corpus
from venus_edge.corpus.store import Document, Writer

Judged = Mapping[int, Mapping[int, int]]  # query -> document -> gain


def indexed(path: Path, texts: Iterable[tuple[int, str, str]]) -> Corpus:
    with Writer(path) as writer, writer.batch():
        for number, title, text in texts:
            writer.put(Document(f"https://x.example/{number}", title, text))
    return Corpus(path)


def found(corpus: Corpus, query: str) -> list[int]:
    return [int(hit.url.rpartition("/")[2]) for hit in corpus.search(query).hits]


def ndcg(corpus: Corpus, queries: Mapping[int, str], judged: Judged) -> float:
    """The mean over the judged queries."""
    return sum(_ndcg(found(corpus, queries[n]), gains) for n, gains in judged.items()) / len(judged)


def _ndcg(ranked: list[int], gains: Mapping[int, int]) -> float:
    ideal = sorted(gains.values(), reverse=True)[:10]
    return _discounted(gains.get(number, 0) for number in ranked) / _discounted(ideal)


def _discounted(gains: Iterable[int]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


def one_line(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture
def collections(shared: Path) -> Path:
    folder = shared / "data"
    if not folder.is_dir():
        pytest.skip("the test collections are not here")
    return folder


def test_cranfield(collections: Path, tmp_path: Path) -> None:
    folder = collections / "cranfield"
    parts = re.findall(r"\.I (\d+)\n(.*?)(?=\n\.I \d+\n|\Z)", (folder / "cran.all.1400").read_text(), re.DOTALL)
    texts = []
    for number, body in parts:
        title = re.search(r"\.T\n(.*?)\n\.A", body, re.DOTALL)
        texts.append((int(number), one_line(title[1]) if title else "", body.partition("\n.W\n")[2]))
    asked = re.findall(r"\.W\n(.*?)(?=\n\.I|\Z)", (folder / "cran.qry").read_text(), re.DOTALL)
    judged: dict[int, dict[int, int]] = {}
    for query, number, code in (row.split() for row in (folder / "cranqrel").read_text().splitlines() if row.strip()):
        if code in "1234":
            judged.setdefault(int(query), {})[int(number)] = 2 ** (5 - int(code)) - 1
    with indexed(tmp_path / "x.sqlite", texts) as corpus:
        assert ndcg(corpus, {n: one_line(text) for n, text in enumerate(asked, 1)}, judged) >= 0.549


def test_npl(collections: Path, tmp_path: Path) -> None:
    def parts(name: str, end: str) -> list[tuple[int, str]]:
        blocks = (block.strip("\n").partition("\n") for block in (collections / "npl" / name).read_text().split(end))
        return [(int(number), rest) for number, _, rest in blocks if number.strip().isdigit()]

    queries = {number: one_line(text) for number, text in parts("query-text", "\n/\n")}
    judged = {number: dict.fromkeys(map(int, rest.split()), 1) for number, rest in parts("rlv-ass", "\n   /\n")}
    with indexed(tmp_path / "x.sqlite", ((n, "", text) for n, text in parts("doc-text", "\n   /\n"))) as corpus:
        assert ndcg(corpus, queries, judged) >= 0.439


def test_known_chinese_passages(collections: Path, tmp_path: Path) -> None:
    known = json.loads(gzip.decompress((collections / "zh_known_item.json.gz").read_bytes()))
    texts = ((number, doc["title"], doc["text"]) for number, doc in enumerate(known["docs"]))
    with indexed(tmp_path / "x.sqlite", texts) as corpus:
        success = {
            kind: sum(query["doc"] in found(corpus, query["q"]) for query in queries) / len(queries)
            for kind, queries in known["queries"].items()
        }
    least = {"frag": 0.957, "words3": 0.911, "word1": 0.23, "mixed": 0.934}
    assert {kind: success[kind] >= bound for kind, bound in least.items()} == dict.fromkeys(least, True)
