"""The public test collections that lie beside the project (never in it), and how good a ranking of them is.

nDCG@10 with gains 2^grade - 1 on Cranfield, binary on NPL; success@10 for known Chinese passages.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

Judged = Mapping[int, Mapping[int, int]]  # query -> document -> gain
Rank = Callable[[str], Sequence[int]]


@dataclass(frozen=True)
class Collection:
    """Documents (number, title, text), queries, and what is worth how much for which."""

    name: str
    documents: Sequence[tuple[int, str, str]]
    queries: Mapping[int, str]
    judged: Judged

    def ndcg(self, rank: Rank) -> float:
        """The mean over the judged queries."""
        return sum(_ndcg(rank(self.queries[n]), gains) for n, gains in self.judged.items()) / len(self.judged)


def _ndcg(ranked: Sequence[int], gains: Mapping[int, int]) -> float:
    ideal = sorted(gains.values(), reverse=True)[:10]
    return _discounted(gains.get(number, 0) for number in ranked[:10]) / _discounted(ideal)


def _discounted(gains: Iterable[int]) -> float:
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))


def one_line(text: str) -> str:
    return " ".join(text.split())


def cranfield(data: Path) -> Collection:
    folder = data / "cranfield"
    parts = re.findall(r"\.I (\d+)\n(.*?)(?=\n\.I \d+\n|\Z)", (folder / "cran.all.1400").read_text(), re.DOTALL)
    documents = []
    for number, body in parts:
        title = re.search(r"\.T\n(.*?)\n\.A", body, re.DOTALL)
        documents.append((int(number), one_line(title[1]) if title else "", body.partition("\n.W\n")[2]))
    asked = re.findall(r"\.W\n(.*?)(?=\n\.I|\Z)", (folder / "cran.qry").read_text(), re.DOTALL)
    judged: dict[int, dict[int, int]] = {}
    for query, number, code in (row.split() for row in (folder / "cranqrel").read_text().splitlines() if row.strip()):
        if code in "1234":
            judged.setdefault(int(query), {})[int(number)] = 2 ** (5 - int(code)) - 1
    return Collection("Cranfield", documents, {n: one_line(text) for n, text in enumerate(asked, 1)}, judged)


def npl(data: Path) -> Collection:
    def parts(name: str, end: str) -> list[tuple[int, str]]:
        blocks = (block.strip("\n").partition("\n") for block in (data / "npl" / name).read_text().split(end))
        return [(int(number), rest) for number, _, rest in blocks if number.strip().isdigit()]

    queries = {number: one_line(text) for number, text in parts("query-text", "\n/\n")}
    judged = {number: dict.fromkeys(map(int, rest.split()), 1) for number, rest in parts("rlv-ass", "\n   /\n")}
    return Collection("NPL", [(n, "", text) for n, text in parts("doc-text", "\n   /\n")], queries, judged)


def cisi(data: Path) -> Collection:
    """The part of CISI's queries that is there, of which some are judged."""

    def parts(name: str) -> list[tuple[int, str, str]]:
        blocks = re.findall(
            r"\.I (\d+)\s*\n(.*?)(?=\n\.I \d+\s*\n|\Z)", (data / "cisi_dev" / name).read_text(), re.DOTALL
        )
        fields = [
            (int(n), dict(re.findall(r"\.([A-Z])\s*\n(.*?)(?=\n\.[A-Z]\s*\n|\Z)", body, re.DOTALL)))
            for n, body in blocks
        ]
        return [(n, one_line(field.get("T", "")), field.get("W", "")) for n, field in fields]

    judged: dict[int, dict[int, int]] = {}
    for query, number, *_ in (row.split() for row in (data / "cisi_dev" / "CISI_dev.REL").read_text().splitlines()):
        judged.setdefault(int(query), {})[int(number)] = 1
    queries = {number: one_line(f"{title} {text}") for number, title, text in parts("CISI_dev.QRY")}
    return Collection("CISI", parts("CISI.ALL"), queries, judged)


@dataclass(frozen=True)
class Known:
    """Passages, and queries of four kinds that were made from one of them each."""

    documents: Sequence[tuple[int, str, str]]
    queries: Mapping[str, Sequence[tuple[str, int]]]

    def success(self, rank: Rank) -> dict[str, float]:
        """The share of queries whose passage is among the first ten."""
        return {
            kind: sum(number in rank(query)[:10] for query, number in queries) / len(queries)
            for kind, queries in self.queries.items()
        }


def chinese(data: Path) -> Known:
    known = json.loads(gzip.decompress((data / "zh_known_item.json.gz").read_bytes()))
    documents = [(number, doc["title"], doc["text"]) for number, doc in enumerate(known["docs"])]
    return Known(documents, {kind: [(q["q"], q["doc"]) for q in rows] for kind, rows in known["queries"].items()})
