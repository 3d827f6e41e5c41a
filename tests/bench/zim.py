"""ZIM archives searched in place, beside libzim's own answers and an index of ours of the same archives.

    python -m tests.bench.zim [quality] [chinese] [--data DIR]

The archives are made here by libzim's Creator of the public collections in DIR (else it says so), with a full-text
index; `cranfield.zim` of DIR is one that was made elsewhere. nDCG@10 on Cranfield and NPL, by which the ranking was
chosen, and on CISI, by which nothing was; success@10 on known Chinese passages; milliseconds a query. Ends with 1 if
something falls short of what is wanted.
"""

from __future__ import annotations

import argparse
import html
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from tests.corpus.collections import Collection, Rank, chinese, cisi, cranfield, npl
from venus_edge import corpora
from venus_edge.corpus.index import Corpus
from venus_edge.corpus.zim import Zim
from venus_edge.settings import Directories, Settings
from venus_edge.sources.extract import extract

ROOT = Path(__file__).resolve().parents[2]
WANTED = {"Cranfield": 0.463, "NPL": 0.415}
WAYS = ("libzim's own", "in place", "an index of ours")
Documents = Sequence[tuple[int, str, str]]
short: list[str] = []


def say(line: str = "") -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


# -- archives and their three ways of ranking --------------------------------------------------------------------------


def made(file: Path, documents: Documents, language: str) -> Path:
    """A ZIM archive of pages whose paths are their numbers."""
    writer: Any = importlib.import_module("libzim.writer")

    class Page(writer.Item):  # type: ignore[misc]  # libzim is untyped
        def __init__(self, number: int, title: str, text: str) -> None:
            super().__init__()
            head, body = html.escape(title), html.escape(text)
            self._path, self._title = str(number), title
            self._body = f"<html><head><title>{head}</title></head><body><h1>{head}</h1><p>{body}</p></body></html>"

        def get_path(self) -> str:
            return self._path

        def get_title(self) -> str:
            return self._title

        def get_mimetype(self) -> str:
            return "text/html"

        def get_contentprovider(self) -> Any:
            return writer.StringProvider(self._body)

        def get_hints(self) -> dict[Any, int]:
            return {writer.Hint.FRONT_ARTICLE: True}

    with quiet(), writer.Creator(file).config_indexing(True, language) as creator:
        for number, title, text in documents:
            creator.add_item(Page(number, title, text))
    return file


@contextmanager
def quiet() -> Iterator[None]:
    """What libzim writes on the two outputs goes nowhere."""
    sys.stdout.flush()
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        yield
    finally:
        for number, copy in enumerate(kept, 1):
            os.dup2(copy, number)
        for each in (*kept, nowhere):
            os.close(each)


def own(file: Path) -> Rank:
    """The query as it is, by libzim."""
    search: Any = importlib.import_module("libzim.search")
    with quiet():
        searcher = search.Searcher(importlib.import_module("libzim.reader").Archive(file))

    def rank(query: str) -> list[int]:
        return [int(path) for path in searcher.search(search.Query().set_query(query)).getResults(0, 10)]

    return rank


def numbered(place: Zim | Corpus) -> Rank:
    return lambda query: [int(hit.url.rpartition("/")[2]) for hit in place.search(query).hits]


@contextmanager
def ways(file: Path, work: Path) -> Iterator[Mapping[str, Rank]]:
    """The rankings of an archive, by name."""
    settings = Settings(Directories(work / "config", work / "data", work / "cache"))
    name = f"{file.stem}-{file.parent.name}".strip("-")
    corpora.create(name, [str(file)], settings, index=True)
    zim = Zim(file, extract)
    with Corpus(corpora.path_of(name, settings)) as corpus:
        yield dict(zip(WAYS, (own(file), numbered(zim), numbered(corpus)), strict=True))
    zim.close()


# -- what is measured --------------------------------------------------------------------------------------------------


def timed(rank: Rank, spent: list[float]) -> Rank:
    def ranked(query: str) -> Sequence[int]:
        start = time.perf_counter()
        found = rank(query)
        spent.append(1e3 * (time.perf_counter() - start))
        return found

    return ranked


def row(name: str, cells: Sequence[str], end: str = "") -> None:
    say(f"{name:<34}" + "".join(f"{cell:>20}" for cell in cells) + end)


def quality(data: Path, work: Path) -> None:
    row("nDCG@10 (ms a query, median)", WAYS)
    for read in (cranfield, npl, cisi):
        collection = read(data)
        _quality(collection, made(work / f"{collection.name}.zim", collection.documents, "eng"), collection.name, work)
    given = data / "zim" / "cranfield.zim"
    if given.is_file():
        _quality(cranfield(data), given, "Cranfield, made elsewhere", work)


def _quality(collection: Collection, file: Path, name: str, work: Path) -> None:
    cells, found = [], {}
    with ways(file, work) as rankings:
        for way, rank in rankings.items():
            spent: list[float] = []
            found[way] = collection.ndcg(timed(rank, spent))
            cells.append(f"{found[way]:.4f} ({median(spent):.1f})")
    least = WANTED.get(collection.name, 0.0)
    is_short = round(found["in place"], 3) < least
    if is_short:
        short.append(name)
    row(name, cells, "   <- SHORT" if is_short else f"   wanted {least}" if least else "")


def known(data: Path, work: Path) -> None:
    passages = chinese(data)
    with ways(made(work / "zh.zim", passages.documents, "zho"), work) as rankings:
        found = {way: passages.success(rank) for way, rank in rankings.items()}
    say()
    row("success@10, Chinese", WAYS)
    for kind in passages.queries:
        row(kind, [f"{found[way][kind]:.3f}" for way in WAYS])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("parts", nargs="*", default=["quality", "chinese"])
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    given = parser.parse_args()
    if not given.data.is_dir():
        say(f"The test collections are not at {given.data}.")
        return
    parts: dict[str, Callable[[Path, Path], None]] = {"quality": quality, "chinese": known}
    with tempfile.TemporaryDirectory() as work:
        for part in given.parts:
            parts[part](given.data, Path(work))
    say(f"\nshort of what is wanted: {', '.join(short) or 'nothing'}")
    sys.exit(1 if short else 0)


if __name__ == "__main__":
    main()
