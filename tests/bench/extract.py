"""Extraction, measured beside the libraries, all of them in one run.

    python tests/bench/extract.py [--data ../shared/data] [--only ours,readability] [--types article] [--json FILE]

In: pages with their ground truth (WCXB's development sample, an article-extraction-benchmark sample). Out: for every
reader the mean word F1 by page type, the share of the ground truth's table cells and list items that survive, and the
CPU milliseconds a page. Words are `\\w+` of the lower-cased text, F1 is over bags of words, means are over pages. A
cell or item counts if its words stand together in the ground truth. A library that is not installed has no row.
"""

from __future__ import annotations

import argparse
import gzip
import importlib
import json
import logging
import re
import statistics
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from venus_edge.sources import extract as extracting  # noqa: E402 - the tree is run as it lies
from venus_edge.sources.charset import decode  # noqa: E402 - as above
from venus_edge.sources.markdown import plain  # noqa: E402 - as above

WORD = re.compile(r"\w+")
TYPES = ("article", "documentation", "service", "forum", "collection", "listing", "product")
Reader = Callable[[bytes, str], str]


@dataclass(frozen=True, slots=True)
class Sample:
    """One page: its bytes, its type ("aeb" for the articles of the other benchmark), and what a person says it says."""

    name: str
    kind: str
    url: str
    body: bytes
    truth: str


@dataclass(slots=True)
class Score:
    """What one reader came to."""

    f1: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    kept: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    pages: int = 0

    def mean(self, kind: str) -> float:
        return statistics.fmean(self.f1[kind]) if self.f1[kind] else float("nan")

    @property
    def overall(self) -> float:
        values = [f for kind, found in self.f1.items() if kind != "aeb" for f in found]
        return statistics.fmean(values) if values else float("nan")


def wcxb(folder: Path) -> Iterator[Sample]:
    kinds = json.loads((folder / "page_types.json").read_text())
    for name, kind in sorted(kinds.items()):
        about = json.loads(gzip.decompress((folder / "ground-truth" / f"{name}.json.gz").read_bytes()))
        body = gzip.decompress((folder / "html" / f"{name}.html.gz").read_bytes())
        yield Sample(name, kind, about["url"], body, about["ground_truth"]["main_content"])


def aeb(folder: Path) -> Iterator[Sample]:
    for name, about in json.loads((folder / "ground-truth.json").read_text()).items():
        page = folder / "html" / f"{name}.html.gz"
        if page.exists():
            url = about.get("url", "https://example.org/")
            yield Sample(name, "aeb", url, gzip.decompress(page.read_bytes()), about["articleBody"])


# -- the readers -----------------------------------------------------------------------------------------------------


def _ours() -> Reader:
    def read(body: bytes, url: str) -> str:
        found = extracting.extract(body, url, "text/html")
        return plain(found.text) if isinstance(found, extracting.Extracted) else ""

    return read


def _full() -> Reader:
    def read(body: bytes, url: str) -> str:
        found = extracting.extract(body, url, "text/html")
        return plain(found.full) if isinstance(found, extracting.Extracted) else ""

    return read


def _readability() -> Reader:
    document: Any = importlib.import_module("readability").Document
    html: Any = importlib.import_module("lxml.html")

    def read(body: bytes, url: str) -> str:
        parser = html.HTMLParser(encoding="utf-8", huge_tree=True)
        try:
            tree = html.document_fromstring(decode(body, "text/html")[0].encode("utf-8", "replace"), parser=parser)
            return " ".join(html.fromstring(document(tree).summary(html_partial=True)).itertext())
        except Exception:  # noqa: BLE001 - it raises its own kinds and lxml's, and a page lost is a page lost
            return ""

    return read


def _trafilatura() -> Reader:
    read: Any = importlib.import_module("trafilatura").extract
    return lambda body, url: read(decode(body, "text/html")[0], url=url) or ""


def _resiliparse() -> Reader:
    module: Any = importlib.import_module("resiliparse.extract.html2text")
    read = module.extract_plain_text
    return lambda body, url: read(decode(body, "text/html")[0], main_content=True)


READERS: dict[str, Callable[[], Reader]] = {
    "ours": _ours,
    "ours-full": _full,
    "readability": _readability,
    "trafilatura": _trafilatura,
    "resiliparse": _resiliparse,
}


# -- the measures ----------------------------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def f1(found: str, truth: str) -> float:
    a, b = Counter(words(found)), Counter(words(truth))
    common = (a & b).total()
    return 2 * common / (a.total() + b.total()) if common else float(a.total() == b.total() == 0)


def elements(sample: Sample) -> list[tuple[str, str]]:
    """(what it is, its words) of every table cell and innermost list item that the ground truth has."""
    root = extracting.parse(decode(sample.body, "text/html")[0])
    truth, found = f" {' '.join(words(sample.truth))} ", []
    for element in root.iter("td", "th", "li") if root is not None else ():
        if element.tag == "li" and element.find(".//li") is not None:
            continue
        said = " ".join(words(" ".join(element.itertext())))
        if 2 <= len(said) <= 400 and f" {said} " in truth:
            found.append(("list items" if element.tag == "li" else "table cells", said))
    return found


def measure(samples: Iterator[Sample], readers: dict[str, Reader]) -> tuple[dict[str, Score], Counter[str]]:
    scores = {name: Score() for name in readers}
    there: Counter[str] = Counter()
    for sample in samples:
        wanted = elements(sample) if sample.kind != "aeb" else []
        there.update(kind for kind, _ in wanted)
        for name, read in readers.items():
            start = time.process_time()
            text = read(sample.body, sample.url)
            scores[name].seconds += time.process_time() - start
            scores[name].pages += 1
            scores[name].f1[sample.kind].append(f1(text, sample.truth))
            said = f" {' '.join(words(text))} "
            scores[name].kept.update(kind for kind, item in wanted if f" {item} " in said)
    return scores, there


def table(scores: dict[str, Score], there: Counter[str]) -> str:
    heads = ["reader", "WCXB", *TYPES, "AEB", "cells", "items", "ms"]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|--:" * (len(heads) - 1) + "|"]
    for name, score in scores.items():
        means = [score.overall, *(score.mean(kind) for kind in (*TYPES, "aeb"))]
        kept = [score.kept[kind] / max(1, there[kind]) for kind in ("table cells", "list items")]
        cells = [name, *(f"{value:.3f}" for value in (*means, *kept)), f"{1000 * score.seconds / score.pages:.1f}"]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append(f"\n{there['table cells']:,} cells and {there['list items']:,} items of the ground truth.")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--only", default="", help="readers, by name")
    parser.add_argument("--types", default="", help="page types")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    readers: dict[str, Reader] = {}
    for name, make in READERS.items():
        if asked.only and name not in asked.only.split(","):
            continue
        try:
            readers[name] = make()
        except ImportError as error:
            sys.stderr.write(f"{name}: not installed ({error})\n")
    samples = [*wcxb(asked.data / "wcxb_dev"), *aeb(asked.data / "aeb_sample")]
    chosen = (s for s in samples if not asked.types or s.kind in asked.types.split(","))
    scores, there = measure(chosen, readers)
    sys.stdout.write(table(scores, there) + "\n")
    if asked.json:
        figures = {n: {"f1": s.f1, "kept": s.kept, "ms": 1000 * s.seconds / s.pages} for n, s in scores.items()}
        asked.json.write_text(json.dumps({"readers": figures, "there": there}, indent=1))


if __name__ == "__main__":
    main()
