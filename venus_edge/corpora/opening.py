"""A CORPUS FILE -> A PLACE TO SEARCH AND VISIT, with the archives that it reads in place.

In: the file of a corpus, or a ZIM archive. Out: an open Searcher and Opener; which archives belong to a file.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from venus_edge.corpora.names import OF_A_FOLDER, gone, is_archive, place_of, said_by_name, sources_in, there
from venus_edge.corpora.sources import extractor
from venus_edge.corpus.places import PIECE
from venus_edge.errors import CorpusError
from venus_edge.settings import Settings
from venus_edge.values import Failure, Found, Page

if TYPE_CHECKING:
    from venus_edge.corpus.ledger import SourceRow
    from venus_edge.corpus.zim import Zim

Note = Callable[[str], None]


class Opened(Protocol):
    """A corpus, open: a Searcher and an Opener."""

    def search(self, query: str, limit: int = 10) -> Found: ...
    def search_all(self, queries: Sequence[str], limit: int = 10) -> Sequence[Found]: ...
    def open(self, url: str) -> Page | Failure: ...
    def close(self) -> None: ...


def archives(file: Path) -> list[Path]:
    """The ZIM archives that a corpus file reads in place; an archive is its own. Raises CorpusError for one that is not
    there."""
    if is_archive(file):
        return [file]
    found = [place_of(source, file) for source in sources_in(file) if source.kind == "zim"]
    if gone := [place for place in found if not place.is_file()]:
        raise CorpusError(f"corpus {file.stem} reads {gone[0]}, which is not there: put it back, or remove it: "
                          f"venus-edge corpus remove {file.stem} {gone[0].stem}")  # fmt: skip
    return found


def pieces(archive: Path) -> list[Path]:
    """The files of a ZIM archive: the one, or all of those into which it was cut for a disk of small files."""
    if archive.suffix.lower() == ".zim":
        return [archive]
    return sorted(
        path for path in archive.parent.glob(f"{glob.escape(archive.stem)}.*") if PIECE.fullmatch(path.suffix)
    )


def in_place(name: str, settings: Settings) -> list[str]:
    """What there is to say of the archives that a named corpus reads in place, a line each."""
    from venus_edge.corpus.zim import Zim

    path = there(name, settings)
    said: list[str] = []
    for source in sources_in(path):
        if source.kind != "zim" or gone(source, path):
            continue
        try:
            with closing(Zim(place_of(source, path), extractor(), source.name)) as zim:
                note = f"; {_note_of(zim, path)}" if zim.note else ""
                said.append(f"{source.name}: {zim.count():,} entries, read in place{note}")
        except CorpusError as error:
            said.append(str(error))
    return said


def _note_of(zim: Zim, path: Path) -> str:
    """What is to be known of an archive that a named corpus reads in place, with the command that adds an index."""
    from venus_edge.corpus.zim import MAKE_INDEX

    return zim.note.replace(MAKE_INDEX, f"venus-edge corpus add {path.stem}")


class Joined:
    """A corpus file and the archives that are read in place beside it."""

    def __init__(self, places: Sequence[Opened]) -> None:
        from venus_edge.corpus.shelf import Shelf

        self._places = tuple(places)
        self._shelf = Shelf(self._places)

    def search(self, query: str, limit: int = 10) -> Found:
        return self._shelf.search(query, limit)

    def search_all(self, queries: Sequence[str], limit: int = 10) -> Sequence[Found]:
        return self._shelf.search_all(queries, limit)

    def open(self, url: str) -> Page | Failure:
        return self._shelf.open(url)

    def close(self) -> None:
        for place in self._places:
            place.close()


def opened(file: Path, settings: Settings, note: Note, check: bool = True) -> Opened:
    """A corpus file with its archives, or an archive by itself. An archive that cannot be read is said through `note`,
    and the others stay usable. Raises CorpusError if nothing is left."""
    from venus_edge import meaning
    from venus_edge.corpus.zim import Zim

    if is_archive(file):
        archive = Zim(file, extractor())
        if archive.note:
            note(archive.note)
        return archive
    is_named = file.parent == settings.directories.corpora and not OF_A_FOLDER.search(file.name)
    with said_by_name(file) if is_named else nullcontext():
        corpus = meaning.corpus(file, settings, note, check)
    archives: list[Zim] = []
    wrong: list[CorpusError] = []
    for source in sources_in(file):
        if source.kind == "zim":
            try:
                archives.append(archive_of(source, file))
            except CorpusError as error:
                wrong.append(error)
    has_documents = bool(corpus.info().documents)
    if wrong and not archives and not has_documents:
        corpus.close()
        raise wrong[0]
    for each in wrong:
        note(str(each))
    for archive in archives:
        if archive.note:
            note(_note_of(archive, file) if is_named else archive.note)
    if not archives:
        return corpus
    return Joined([*([corpus] if has_documents else []), *archives])


def archive_of(source: SourceRow, file: Path) -> Zim:
    """An archive that a corpus file reads in place. Raises CorpusError."""
    from venus_edge.corpus.zim import Zim

    place = place_of(source, file)
    if not place.is_file():
        raise CorpusError(f"corpus {file.stem} reads {place} in place, which is not there: copy it there")
    return Zim(place, extractor(), source.name)
