"""A SOURCE AS A PERSON NAMES IT -> WHAT READS IT: folders, files, archives, JSON lines, the page cache, sessions.

In: a path or `cache:`, a row of the ledger. Out: a Reader of `corpus`. Text is made by the page extractor of `sources`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from venus_edge.corpus.places import PIECE, source_at
from venus_edge.errors import CorpusError, StorageError
from venus_edge.settings import Settings
from venus_edge.values import Failure

if TYPE_CHECKING:
    from venus_edge.corpus.collect import Reader
    from venus_edge.corpus.kept import Kept
    from venus_edge.corpus.ledger import SourceRow
    from venus_edge.corpus.page import Extract

Newest = Mapping[str, tuple[str, int]]


def checked(place: str, index: bool, settings: Settings, stack: ExitStack) -> tuple[str, str, str]:
    """The same, once it is sure that the source can be read. Raises CorpusError, UsageError."""
    from venus_edge.corpus.folder import SUFFIXES
    from venus_edge.corpus.ledger import SourceRow
    from venus_edge.corpus.zim import opened

    kind, whole, name = source_at(place)
    if kind == "zim" and index:
        kind = "zim-index"
    if kind == "file" and not Path(whole).is_file():
        raise CorpusError(f"{place} is not there; name a folder, a file, an archive, or cache:")
    if kind == "file" and PIECE.fullmatch(Path(whole).suffix.lower()):
        raise CorpusError(f"{place} is a part of an archive; name the first one, {Path(place).with_suffix('.zimaa')}")
    if kind == "file" and Path(whole).suffix.lower() not in SUFFIXES:
        raise CorpusError(f"{place} is of a kind that is not read; name a folder, a document, .zim, .warc.gz or .jsonl")
    if kind == "zim":
        opened(Path(whole))
    else:
        reader_of(SourceRow(0, kind, whole, name), settings, stack, {})
    return kind, whole, name


def readable(
    places: Sequence[str], index: bool, settings: Settings, stack: ExitStack
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """The sources that can be read, and the archives that cannot, with the reason. Raises CorpusError for a source of
    another kind, and where nothing is left."""
    asked: list[tuple[str, str, str]] = []
    damaged: list[tuple[str, str]] = []
    for place in places:
        try:
            asked.append(checked(place, index, settings, stack))
        except CorpusError as error:
            if len(places) == 1 or source_at(place)[0] not in ("zim", "warc"):
                raise
            damaged.append((place, str(error)))
    if damaged and not asked:
        raise CorpusError("; ".join(reason for _, reason in damaged))
    return asked, damaged


def reader_of(source: SourceRow, settings: Settings, stack: ExitStack, newest: Newest) -> Reader | None:
    """What reads a source; None for an archive that is read in place. `newest` is of the sessions beside it."""
    from venus_edge.corpus.folder import FileReader, FolderReader
    from venus_edge.corpus.jsonl import JsonLines
    from venus_edge.corpus.kept import KeptPages
    from venus_edge.corpus.warc import Warc
    from venus_edge.corpus.zim import ZimReader

    place = Path(source.place)
    if not source.place:
        raise CorpusError(f"source {source.name} was on another disk; add it anew with: venus-edge corpus add")
    match source.kind:
        case "zim":
            return None
        case "zim-index":
            return ZimReader(place, source.name, extractor())
        case "jsonl":
            return JsonLines(place, source.name)
        case "warc":
            return Warc(place, source.name, extractor())
        case "cache":
            return KeptPages(source.name, lambda: _cached(settings))
        case "session":
            if not place.is_file():
                raise StorageError(f"session {place} is not there")
            return KeptPages(source.name, lambda: _of_session(source.place, settings, newest))
        case "file":
            return FileReader(place, source.name, extractor())
        case _:
            return FolderReader(place, source.name, extractor())


def extractor() -> Extract:
    """The page extractor, loaded when it is needed."""
    from venus_edge.sources.extract import extract

    return extract


def _cached(settings: Settings) -> Iterator[Kept]:
    """The pages of the cache, one at a time."""
    from venus_edge.corpus.kept import Kept
    from venus_edge.sources.cache import Cache

    with Cache(settings.directories.cache) as cache:
        for key in cache.keys():  # noqa: SIM118  # its own, not a mapping's
            copy = cache.get(key, 0.0)
            if copy is None:
                continue
            if isinstance(copy.extracted, Failure):
                yield Kept((copy.url, key), "", "", trouble=copy.extracted.detail)
            else:
                yield Kept(
                    (copy.url, key),
                    copy.extracted.title,
                    copy.extracted.text,
                    copy.extracted.date,
                    rest=copy.extracted.rest,
                )


def _of_session(place: str, settings: Settings, newest: Newest) -> Iterator[Kept]:
    """The pages that a run read and nobody read later, all of their text; known as well by the address that the cache
    has them from."""
    from venus_edge.corpus.kept import Kept
    from venus_edge.sources.cache import Cache

    with Cache(settings.directories.cache) as cache:
        for number, (asked, page) in enumerate(readings(Path(place))):
            if newest[page["url"]] != (place, number):
                continue
            copy = cache.find(page["url"])
            urls = (page["url"], asked, *([copy.url] if copy is not None else []))
            yield Kept(urls, page["title"], page["text"], page.get("date", ""), rest=page.get("rest", ""))


def newest_of(sources: Iterable[SourceRow]) -> Newest:
    """Of every page that sessions among these sources read its last reading: the session, and which of its pages."""
    found = {}
    places = (source.place for source in sources if source.kind == "session" and Path(source.place).is_file())
    for place in sorted(places, key=lambda place: Path(place).stem):  # which begins with its time
        for number, (_, page) in enumerate(readings(Path(place))):
            found[page["url"]] = (place, number)
    return found


def readings(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The pages in a session, each with the address that was asked for."""
    from venus_edge.sessions.reading import read

    for record in read(path):
        if record.get("event") == "ToolReturned":
            readings = record["result"]["readings"]
            yield from ((reading["url"], reading["page"]) for reading in readings if reading.get("page"))
