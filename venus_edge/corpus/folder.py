"""A FOLDER OF DOCUMENTS, read file by file: what is in it, and which of it has changed.

In: a folder (or one file), and `extract`, which makes text of pages (world gives the one of `sources`). Out: a
`Reader` for `collect`, and the corpus of a single folder. Links out of the folder are not followed; what is left out
is said with the reason, and is never fatal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath

from venus_edge.corpus import address, page
from venus_edge.corpus.collect import Progress, Read, Record, Report, Size, Skipped, update
from venus_edge.corpus.ledger import Ledger
from venus_edge.corpus.page import Extract
from venus_edge.corpus.store import Document, Writer
from venus_edge.errors import CorpusError

SUFFIXES = page.TEXT | page.PAGES
ARCHIVES = (".zim", ".zimaa", ".warc", ".warc.gz", ".warc.zst", ".wacz", ".jsonl", ".jsonl.gz", ".ndjson")
_OF_FOLDERS = ("index.html", "index.htm", "index.xhtml")  # the page that a link to its folder leads to
_SOURCE = re.compile(r"(.+?)(?:\.(?:rst|md|txt|ipynb))?\.(?:txt|rst|md)")  # the name of a file there
_SOURCES = "_sources"  # where Sphinx keeps what it made the pages beside that folder from, as PAGE.rst.txt


def build(folder: Path, index: Path, extract: Extract, progress: Progress | None = None) -> Report:
    """Brings the corpus file `index` up to date with `folder`. Raises CorpusError if there is no such folder.

    Interrupted at any moment, the file is sound and the next build goes on. Nothing of the disk around the folder is in
    the file.
    """
    reader = FolderReader(folder, folder.name or folder.resolve().name, extract)
    with Writer(index) as writer:
        ledger = Ledger(writer.connection)
        with writer.batch():
            source = next(iter(ledger.sources()), None) or ledger.add("folder", "", reader.name)
        return update(writer, {source.number: reader}, progress)


class FolderReader:
    """A folder as a source. `name` is what the addresses of its files begin with."""

    def __init__(self, folder: Path, name: str, extract: Extract) -> None:
        """Raises CorpusError for what is not a folder, or cannot be read."""
        self.name = name
        self._root = _root(folder)
        self._extract = extract

    def stamp(self) -> str:
        return ""

    def size(self, report: Report) -> Size:
        files = total = 0
        skipped: list[Skipped] = []
        for file in _walk(self._root, skipped, report.others):
            files, total = files + 1, total + file.size
        for each in skipped:
            report.skip(each.path, each.reason)
        return Size(files, total)

    def read(self, cursor: int) -> Iterator[Read]:
        """Every file; those that have not changed cost a look at their date, so the cursor is only for progress."""
        done = 0
        for number, file in enumerate(_walk(self._root, [], {}), 1):
            done += file.size
            yield Read(number, done, self._item(file))

    def _item(self, file: _File) -> Record | Skipped:
        if made := _page_made_from(self._root, PurePosixPath(file.path)):
            return Skipped(file.path, f"the page made from it is there: {made}")
        body, make = (self._root / file.path).read_bytes, partial(self._document, file.path)
        return Record(file.path, file.size, body, make, file.mtime_ns)

    def _document(self, path: str, body: bytes) -> Document | str:
        name = PurePosixPath(path)
        made = page.of_file(body, path, address.of_file(self.name, name.parts), self._extract)
        if isinstance(made, str) or name.name.lower() not in _OF_FOLDERS:
            return made
        return replace(made, aliases=(*made.aliases, address.of_file(self.name, name.parent.parts)))


class FileReader(FolderReader):
    """A single file as a source."""

    def __init__(self, file: Path, name: str, extract: Extract) -> None:
        super().__init__(file.parent, name, extract)
        self._file = file.name

    def size(self, report: Report) -> Size:
        skipped: list[Skipped] = []
        sizes = [file.size for file in _stat(self._root, self._root / self._file, skipped)]
        for each in skipped:
            report.skip(each.path, each.reason)
        return Size(len(sizes), sum(sizes))

    def read(self, cursor: int) -> Iterator[Read]:
        for file in _stat(self._root, self._root / self._file, []):
            body = (self._root / file.path).read_bytes
            yield Read(1, file.size, Record(file.path, file.size, body, self._own, file.mtime_ns))

    def _own(self, body: bytes) -> Document | str:
        return page.of_file(body, self._file, address.of_file(self.name, ()), self._extract)


def check_folder(folder: Path) -> None:
    """Raises CorpusError for what is not a folder, or cannot be read."""
    _root(folder)


def _root(folder: Path) -> Path:
    root = folder.resolve()
    if not root.exists():
        raise CorpusError(f"there is nothing at {folder}; make a corpus with: venus-edge corpus create NAME SOURCE")
    if not root.is_dir():
        raise CorpusError(
            f"{folder} is not a folder; give one that holds documents, or the name of a corpus (venus-edge corpus list)"
        )
    if not os.access(root, os.R_OK | os.X_OK):
        raise CorpusError(f"{folder} cannot be read; allow it, or give another folder")
    return root


# -- what is there ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _File:
    path: str  # from the root, with /
    size: int
    mtime_ns: int


def _walk(root: Path, skipped: list[Skipped], others: dict[str, int]) -> Iterator[_File]:
    """The readable documents, in the order of their paths. Hidden files and folders are not looked at."""
    for at, folders, names in os.walk(root, onerror=lambda error: skipped.append(_unreadable(root, error))):
        here = Path(at)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        _note_links(root, [here / name for name in folders], skipped)
        for name in sorted(names):
            suffix = Path(name).suffix.lower()
            if name.startswith("."):
                continue
            if suffix in SUFFIXES:
                yield from _stat(root, here / name, skipped)
            elif name.lower().endswith(ARCHIVES):
                skipped.append(Skipped(_relative(root, here / name), "an archive: name it as a source of its own"))
            else:
                others[suffix or "without suffix"] = others.get(suffix or "without suffix", 0) + 1


def _page_made_from(root: Path, path: PurePosixPath) -> str:
    """The page beside Sphinx's folder of sources that was made from a file in it, "" if there is none."""
    made_from = _SOURCE.fullmatch(path.name)
    if _SOURCES not in path.parts[:-1] or made_from is None:
        return ""
    at = len(path.parts) - 1 - path.parts[::-1].index(_SOURCES)
    folder = PurePosixPath(*path.parts[:at], *path.parts[at + 1 : -1])
    pages = (folder / f"{made_from[1]}.html", folder / made_from[1] / "index.html")
    return next((str(page) for page in pages if _is_read(root, root / page)), "")


def _is_read(root: Path, path: Path) -> bool:
    return path.is_file() and any(_stat(root, path, []))


def _unreadable(root: Path, error: OSError) -> Skipped:
    path = Path(os.fsdecode(error.filename)) if error.filename else root
    return Skipped(_relative(root, path), f"cannot be read: {error.strerror}")


def _relative(root: Path, path: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name


def _note_links(root: Path, folders: Sequence[Path], skipped: list[Skipped]) -> None:
    """A link to a folder is not followed; what it leads to inside is read there."""
    outward = (path for path in folders if path.is_symlink() and not _leads_inside(root, path))
    skipped.extend(Skipped(_relative(root, path), "a link out of the folder") for path in outward)


def _leads_inside(root: Path, path: Path) -> bool:
    try:
        return path.resolve(strict=True).is_relative_to(root)
    except (OSError, RuntimeError):  # a link to nothing, or in a circle
        return False


def _stat(root: Path, path: Path, skipped: list[Skipped]) -> Iterator[_File]:
    name = _relative(root, path)
    try:
        name.encode()
        if path.is_symlink() and not _leads_inside(root, path):
            skipped.append(Skipped(name, "a link out of the folder, or to nothing"))
            return
        stat = path.stat()
    except UnicodeEncodeError:
        skipped.append(Skipped(name.encode("utf-8", "replace").decode(), "its name is not UTF-8"))
    except OSError as error:
        skipped.append(_unreadable(root, error))
    else:
        if not path.is_file():
            skipped.append(Skipped(name, "not a file"))
        elif stat.st_size > page.LARGEST:
            skipped.append(Skipped(name, f"too large: {stat.st_size / 1e6:.0f} MB, at most {page.LARGEST / 1e6:.0f}"))
        else:
            yield _File(name, stat.st_size, stat.st_mtime_ns)
