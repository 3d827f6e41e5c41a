"""CORPORA BY NAME: where they lie, what they are made of, and how they are opened.

In: Settings, a name, and sources as a person names them: folders, files, ZIM, WARC and WACZ archives, JSON lines,
`cache:` (the page cache), sessions. Out: corpus files in the data directory, and places to search and visit. What each
kind holds is in `corpus`; text is made by the page extractor of `sources`.
"""

from __future__ import annotations

import glob
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from venus_edge.corpus.places import AGAIN, PIECE, distinct, holder, source_at, where
from venus_edge.errors import CorpusError, StorageError, UsageError
from venus_edge.settings import Settings
from venus_edge.values import Failure, Found, Page

if TYPE_CHECKING:
    from venus_edge.corpus.collect import Progress, Reader, Report
    from venus_edge.corpus.kept import Kept
    from venus_edge.corpus.ledger import SourceRow
    from venus_edge.corpus.page import Extract
    from venus_edge.corpus.store import Writer
    from venus_edge.corpus.zim import Zim

Note = Callable[[str], None]

_NAME = re.compile(r"\w[\w.-]{0,63}")
_OF_WINDOWS = re.compile(r"(con|prn|aux|nul|(com|lpt)[0-9¹²³])(\..*)?", re.IGNORECASE)  # no file there has such a name
_OF_A_FOLDER = re.compile(r"-[0-9a-f]{12}\.sqlite$")  # a corpus that is known by its folder


class _SourceGoneError(CorpusError):
    """A source of a corpus is not where it was."""


class Opened(Protocol):
    """A corpus, open: a Searcher and an Opener."""

    def search(self, query: str, limit: int = 10) -> Found: ...
    def search_all(self, queries: Sequence[str], limit: int = 10) -> Sequence[Found]: ...
    def open(self, url: str) -> Page | Failure: ...
    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Named:
    """A corpus in the list. `trouble` says why it cannot be read, "" if it can."""

    name: str
    path: Path
    documents: int
    size: int
    sources: int
    trouble: str = ""
    in_place: int = 0  # of the sources
    left: int = 0  # bytes of what a rebuild left beside it


# -- names ------------------------------------------------------------------------------------------------------------


def path_of(name: str, settings: Settings) -> Path:
    """Where a corpus of this name lies, or would. Raises UsageError for what is no name."""
    if not _NAME.fullmatch(name) or name.endswith("."):
        raise UsageError(f"{name!r} is no name for a corpus: letters of any script, digits, - _ and . but no spaces, "
                         "up to 64 characters")  # fmt: skip
    if _OF_WINDOWS.fullmatch(name):
        raise UsageError(f"{name!r} is no name for a corpus: Windows keeps it for a device; choose another")
    return settings.directories.corpora / f"{name}.sqlite"


def named(path: Path, settings: Settings) -> Path | None:
    """The corpus file of what was given as a path and is the name of a corpus: bare, or in config.toml, whose paths
    begin from its folder."""
    is_bare = len(path.parts) == 1 or (path.parent == settings.directories.config and not path.exists())
    if not is_bare or not _NAME.fullmatch(path.name):
        return None
    file = settings.directories.corpora / f"{path.name}.sqlite"
    return file if file.is_file() else None


def there(name: str, settings: Settings) -> Path:
    """The file of a corpus that there is. Raises UsageError with the names there are, CorpusError for what is somebody
    else's file."""
    from venus_edge.corpus import files

    path = path_of(name, settings)
    if not path.is_file():
        known = ", ".join(each.name for each in listed(settings)) or "none yet"
        raise UsageError(
            f"there is no corpus {name!r} ({known}); make one with: venus-edge corpus create {name} SOURCE"
        )
    files.check_ours(path)
    return path


def listed(settings: Settings) -> list[Named]:
    """The corpora that have a name."""
    files = sorted(settings.directories.corpora.glob("*.sqlite"))
    return [_named(file) for file in files if not _OF_A_FOLDER.search(file.name)]


def _named(file: Path) -> Named:
    from venus_edge.corpus import files
    from venus_edge.corpus.index import Corpus
    from venus_edge.corpus.ledger import sources_of

    size = left = 0
    try:
        files.check_ours(file)
        size, left = files.size(file), sum(map(files.size, files.left(file)))
        with said_by_name(file), closing(Corpus(file, check=False)) as corpus:
            documents = corpus.info().documents
            sources = sources_of(file)
        in_place = sum(source.kind == "zim" for source in sources)
        return Named(file.stem, file, documents, size, len(sources), "", in_place, left)
    except (CorpusError, StorageError) as error:
        return Named(file.stem, file, 0, size, 0, str(error), left=left)


# -- making and changing ----------------------------------------------------------------------------------------------


def create(
    name: str,
    places: Sequence[str],
    settings: Settings,
    index: bool = False,
    progress: Progress | None = None,
    engine: str = "",
) -> Report:
    """A new corpus of these sources; an interrupted one goes on. `index`: of ZIM archives too, which are read in place
    otherwise. `engine` "tantivy" has the words in that instead of SQLite. Raises CorpusError, UsageError."""
    from venus_edge.corpus import files

    path = path_of(name, settings)
    if path.is_file():
        files.check_ours(path)
        try:
            known = {source.place for source in _sources(path)}
        except CorpusError:  # not whole: it is begun anew, and what is there is kept aside
            known = set()
        if known and known != {source_at(place)[1] for place in distinct(places)[0]}:
            raise UsageError(f"there is a corpus {name!r} already; add to it with: venus-edge corpus add {name} SOURCE")
        if known and engine and engine != engine_of(path):
            raise UsageError(f"corpus {name!r} was begun otherwise: venus-edge corpus rebuild {name} --engine {engine}")
    return add(name, places, settings, index, progress, new=True, engine=engine)


def add(
    name: str,
    places: Sequence[str],
    settings: Settings,
    index: bool = False,
    progress: Progress | None = None,
    new: bool = False,
    engine: str = "",
) -> Report:
    """Further sources of a corpus, and what has changed in those it has. An archive that cannot be read is left out
    where there is another source. Raises CorpusError, UsageError."""
    from venus_edge.corpus.store import Writer
    from venus_edge.corpus.writing import writing

    path = path_of(name, settings) if new else there(name, settings)
    wanted, twice = distinct(places)
    with ExitStack() as stack:
        asked, damaged = _readable(wanted, index, settings, stack)
        stack.enter_context(writing(path))
        with said_by_name(path):
            writer = stack.enter_context(Writer(path, engine, new))
        said = _join(writer, asked)
        report = _updated(writer, path, settings, stack, progress)
    for place, reason in (*damaged, *twice, *([] if new else said)):
        report.skip(place, reason)
    return report


def _join(writer: Writer, asked: Sequence[tuple[str, str, str]]) -> list[tuple[str, str]]:
    """Notes the sources that are new, and which archives are to be indexed from now on. Out: what was known, and what
    is read with a folder now, with the reason."""
    from venus_edge.corpus import collect
    from venus_edge.corpus.ledger import Ledger

    ledger, said = Ledger(writer.connection), []
    with writer.batch():
        known = ledger.sources()
        folders = [source.place for source in known if source.kind == "folder"]
        places = {where(source.place): source for source in known if source.place}
        for kind, place, called in asked:
            there, folder = places.get(where(place)), holder(kind, place, folders)
            if there is not None and (there.kind, kind) == ("zim", "zim-index"):
                ledger.index_too(there)
            elif there is not None or folder:
                said.append((place, f"it is read with {folder}" if folder and not there else AGAIN))
            else:
                ledger.add(kind, place, called)
    folders = [place for kind, place, _ in asked if kind == "folder"]
    for source in known:
        if folder := holder(source.kind, source.place, folders):
            collect.remove(writer, source)
            said.append((source.name, f"it is read with {folder}"))
    return said


def update(name: str, settings: Settings, progress: Progress | None = None) -> Report:
    """Brings a corpus up to date with its sources."""
    return add(name, (), settings, progress=progress)


def remove(name: str, place: str, settings: Settings) -> int:
    """Takes a source out of a corpus, with its documents: how many. Raises UsageError if it has none such."""
    from venus_edge.corpus import collect
    from venus_edge.corpus.ledger import Ledger
    from venus_edge.corpus.store import Writer
    from venus_edge.corpus.writing import writing

    path = there(name, settings)
    with ExitStack() as stack:
        stack.enter_context(writing(path))
        with said_by_name(path):
            writer = stack.enter_context(Writer(path, new=False))
        sources = Ledger(writer.connection).sources()
        wanted = [
            source for source in sources if place in (source.name, source.place) or source_at(place)[1] == source.place
        ]
        if not wanted:
            known = ", ".join(source.name for source in sources)
            raise UsageError(f"corpus {name!r} has no source {place!r}; it has: {known}")
        return sum(collect.remove(writer, source) for source in wanted)


def rebuild(name: str, settings: Settings, progress: Progress | None = None, engine: str = "") -> Report:
    """Reads all sources again into a new file, which then takes the place of the old one; with another `engine`, "fts5"
    or "tantivy", if that is given. Where a source is not there, the texts of the old file are indexed again."""
    from venus_edge.corpus import store, tantivy_index
    from venus_edge.corpus.writing import writing

    path = there(name, settings)
    beside = path.with_name(path.name + ".new")
    engine = engine or engine_of(path)
    with writing(path):
        if beside.is_file() and engine_of(beside) != engine:  # one that was begun otherwise
            _discard(beside)
        try:
            report = _read_again(path, beside, engine, settings, progress)
        except _SourceGoneError:
            if engine != engine_of(path):
                raise
            report = _index_again(path, beside, settings, progress)
        _carry_vectors(path, beside)
        try:
            _make_way(path)
            beside.replace(path)
        except OSError as error:  # Windows, while it is open
            raise StorageError(f"{path}: {error.strerror}; end what searches it, and rebuild again") from error
        tantivy_index.tidy(path, kept=store.beside(path))
    return report


def _read_again(path: Path, beside: Path, engine: str, settings: Settings, progress: Progress | None) -> Report:
    """A new corpus of the same sources. Raises _SourceGoneError."""
    from venus_edge.corpus.ledger import Ledger, sources_of
    from venus_edge.corpus.store import Writer

    with ExitStack() as stack:
        writer = stack.enter_context(Writer(beside, engine))
        ledger = Ledger(writer.connection)
        with writer.batch():
            known = {(source.kind, source.place) for source in ledger.sources()}
            with said_by_name(path):
                sources = sources_of(path, checked=False)
            for source in sources:
                if (source.kind, source.place) not in known:
                    ledger.add(source.kind, source.place, source.name)
        return _updated(writer, path, settings, stack, progress, strict=True)


def _index_again(path: Path, beside: Path, settings: Settings, progress: Progress | None) -> Report:
    """A new corpus of the texts of the old one, and of those sources that are there. Raises _SourceGoneError where the
    texts cannot be read either."""
    from venus_edge.corpus.again import index_again
    from venus_edge.corpus.store import Writer

    _discard(beside)
    try:
        index_again(path, beside)
    except CorpusError as error:
        raise CorpusError(f"{path}: its texts are damaged, and not all of its sources are there; put those back, or "
                          f"make it of others: venus-edge corpus create {path.stem} SOURCE") from error  # fmt: skip
    with ExitStack() as stack:
        return _updated(stack.enter_context(Writer(beside)), path, settings, stack, progress)


def _discard(path: Path) -> None:
    for end in ("-wal", "-shm", ""):
        path.with_name(path.name + end).unlink(missing_ok=True)


def _make_way(path: Path) -> None:
    """Moves a damaged corpus aside, and removes what belongs to a sound one."""
    from venus_edge.corpus import store

    try:
        store.check(path, beside=False)
    except CorpusError:
        store.aside(path)
    for end in ("-wal", "-shm"):
        path.with_name(path.name + end).unlink(missing_ok=True)


def _carry_vectors(path: Path, rebuilt: Path) -> None:
    """They may have taken hours. Of a file of an older version, too; what was damaged is embedded again when it is
    asked for."""
    from venus_edge.corpus import dense

    with suppress(CorpusError, StorageError):
        if dense.made_by(path):
            dense.carry(path, rebuilt)


def engine_of(path: Path) -> str:
    """What a corpus file is searched by; of a damaged one, what lies beside it tells."""
    from venus_edge.corpus import store, tantivy_index

    try:
        is_beside = store.beside(path) is not None
    except CorpusError:
        is_beside = bool(tantivy_index.folders(path))
    return tantivy_index.ENGINE if is_beside else "fts5"


def embed(file: Path, settings: Settings, note: Note) -> int:
    """Gives every passage of a corpus file a vector of the embedding model that is set: how many had none."""
    from venus_edge import meaning

    return meaning.embed(file, settings, note)


def rm(name: str, settings: Settings) -> tuple[Path, int]:
    """Removes a corpus, and what its rebuilds left; its sources stay. Out: where it was, and how many bytes."""
    from venus_edge.corpus import files
    from venus_edge.corpus.writing import writing

    path = there(name, settings)
    with writing(path):
        return path, files.remove(path)


def check(name: str, settings: Settings) -> list[str]:
    """What is wrong with a corpus and its archives, one line each."""
    from venus_edge.corpus import store

    path = there(name, settings)
    try:
        store.check(path)
        sources = _sources(path)
    except (CorpusError, StorageError) as error:
        return [str(error).replace(store.BUILD, _mending(path))]
    wrong = []
    for source in sources:
        if why := gone(source, path):
            wrong.append(why)
            continue
        if source.kind not in ("zim", "zim-index") or not source.place:  # indexed elsewhere
            continue
        try:
            if not _archive(source, path).is_sound():
                wrong.append(f"{source.place}: the archive is damaged (its checksum is wrong); fetch it again")
        except CorpusError as error:
            wrong.append(str(error))
    return wrong


def _sources(path: Path) -> list[SourceRow]:
    """The sources of a named corpus. Raises CorpusError with the command that mends it."""
    from venus_edge.corpus.ledger import sources_of

    with said_by_name(path):
        return sources_of(path)


@contextmanager
def said_by_name(path: Path) -> Iterator[None]:
    """What is wrong with a named corpus is said with the command that mends it."""
    from venus_edge.corpus import files
    from venus_edge.corpus.store import BUILD

    try:
        yield
    except CorpusError as error:
        if path.is_file():
            files.check_ours(path)
        raise CorpusError(str(error).replace(BUILD, _mending(path))) from error


def _mending(path: Path) -> str:
    from venus_edge.corpus.ledger import sources_of

    with suppress(CorpusError, StorageError):
        if sources_of(path, checked=False):
            return f"venus-edge corpus rebuild {path.stem}"
    return f"venus-edge corpus create {path.stem} SOURCE"


def _updated(
    writer: Writer, path: Path, settings: Settings, stack: ExitStack, progress: Progress | None, strict: bool = False
) -> Report:
    """Reads the sources of the corpus at `path`. One that is not there keeps its documents, unless `strict`: then
    _SourceGoneError."""
    from venus_edge.corpus import collect
    from venus_edge.corpus.ledger import Ledger

    readers: dict[int, Reader] = {}
    missing: list[tuple[str, str]] = []
    sources = Ledger(writer.connection).sources()
    newest = _newest(sources)
    for source in sources:
        try:
            reader = _reader(source, settings, stack, newest)
        except (CorpusError, StorageError, UsageError) as error:
            if strict:
                raise _SourceGoneError(str(error)) from error
            missing.append((source.name, gone(source, path) or f"{error} (what it gave before stays)"))
            continue
        if reader is None and (why := gone(source, path)):
            missing.append((source.name, why))
        elif reader is not None:
            readers[source.number] = reader
    report = collect.update(writer, readers, progress)
    for name, reason in missing:
        report.missing.append(name)
        report.skip(name, reason)
    return report


def gone(source: SourceRow, file: Path) -> str:
    """That a source of a corpus is not on this disk, with what to do; "" where it is, or is not looked for."""
    place = place_of(source, file)
    if not source.place or source.kind == "cache" or place.exists():
        return ""
    stays = "" if source.kind == "zim" else " (what it gave before stays)"
    return (f"{place} is not there{stays}: put it back, or take it out with: "
            f"venus-edge corpus remove {file.stem} {shlex.quote(source.name)}")  # fmt: skip


# -- sources ----------------------------------------------------------------------------------------------------------


def _checked(place: str, index: bool, settings: Settings, stack: ExitStack) -> tuple[str, str, str]:
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
        _reader(SourceRow(0, kind, whole, name), settings, stack, {})
    return kind, whole, name


def _readable(
    places: Sequence[str], index: bool, settings: Settings, stack: ExitStack
) -> tuple[list[tuple[str, str, str]], list[tuple[str, str]]]:
    """The sources that can be read, and the archives that cannot, with the reason. Raises CorpusError for a source of
    another kind, and where nothing is left."""
    asked: list[tuple[str, str, str]] = []
    damaged: list[tuple[str, str]] = []
    for place in places:
        try:
            asked.append(_checked(place, index, settings, stack))
        except CorpusError as error:
            if len(places) == 1 or source_at(place)[0] not in ("zim", "warc"):
                raise
            damaged.append((place, str(error)))
    if damaged and not asked:
        raise CorpusError("; ".join(reason for _, reason in damaged))
    return asked, damaged


def _reader(source: SourceRow, settings: Settings, stack: ExitStack, newest: Newest) -> Reader | None:
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
            return ZimReader(place, source.name, _extractor())
        case "jsonl":
            return JsonLines(place, source.name)
        case "warc":
            return Warc(place, source.name, _extractor())
        case "cache":
            return KeptPages(source.name, lambda: _cached(settings))
        case "session":
            if not place.is_file():
                raise StorageError(f"session {place} is not there")
            return KeptPages(source.name, lambda: _of_session(source.place, settings, newest))
        case "file":
            return FileReader(place, source.name, _extractor())
        case _:
            return FolderReader(place, source.name, _extractor())


def _extractor() -> Extract:
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


Newest = Mapping[str, tuple[str, int]]


def _of_session(place: str, settings: Settings, newest: Newest) -> Iterator[Kept]:
    """The pages that a run read and nobody read later, all of their text; known as well by the address that the cache
    has them from."""
    from venus_edge.corpus.kept import Kept
    from venus_edge.sources.cache import Cache

    with Cache(settings.directories.cache) as cache:
        for number, (asked, page) in enumerate(_readings(Path(place))):
            if newest[page["url"]] != (place, number):
                continue
            copy = cache.find(page["url"])
            urls = (page["url"], asked, *([copy.url] if copy is not None else []))
            yield Kept(urls, page["title"], page["text"], page.get("date", ""), rest=page.get("rest", ""))


def _newest(sources: Iterable[SourceRow]) -> Newest:
    """Of every page that sessions among these sources read its last reading: the session, and which of its pages."""
    found = {}
    places = (source.place for source in sources if source.kind == "session" and Path(source.place).is_file())
    for place in sorted(places, key=lambda place: Path(place).stem):  # which begins with its time
        for number, (_, page) in enumerate(_readings(Path(place))):
            found[page["url"]] = (place, number)
    return found


def _readings(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The pages in a session, each with the address that was asked for."""
    from venus_edge.sessions.reading import read

    for record in read(path):
        if record.get("event") == "ToolReturned":
            readings = record["result"]["readings"]
            yield from ((reading["url"], reading["page"]) for reading in readings if reading.get("page"))


def pack_sessions(name: str, sessions: Iterable[Path], settings: Settings, progress: Progress | None = None) -> Report:
    """A corpus of the pages that these runs read; further sessions may join it. Raises UsageError if they read none."""
    from venus_edge.corpus.ledger import Ledger
    from venus_edge.corpus.store import Writer
    from venus_edge.corpus.writing import writing

    path, sessions = path_of(name, settings), list(sessions)
    if not any(next(_readings(session), None) for session in sessions):
        raise UsageError(f"no page was read in {', '.join(each.stem for each in sessions)}: there is nothing to pack")
    with ExitStack() as stack:
        stack.enter_context(writing(path))
        with said_by_name(path):
            writer = stack.enter_context(Writer(path, new=not path.is_file()))
        ledger = Ledger(writer.connection)
        with writer.batch():
            known = {source.place for source in ledger.sources()}
            for session in sessions:
                if str(session.absolute()) not in known:
                    ledger.add("session", str(session.absolute()), session.stem)
        return _updated(writer, path, settings, stack, progress)


# -- opening ----------------------------------------------------------------------------------------------------------


def is_archive(file: Path) -> bool:
    """Whether it is called as a ZIM archive is, or a piece of one."""
    return file.suffix.lower() == ".zim" or bool(PIECE.fullmatch(file.suffix.lower()))


def place_of(source: SourceRow, file: Path) -> Path:
    """Where a source of a corpus file lies: beside it, if it came with it from another machine."""
    return file.parent / source.place


def archives(file: Path) -> list[Path]:
    """The ZIM archives that a corpus file reads in place; an archive is its own. Raises CorpusError for one that is not
    there."""
    if is_archive(file):
        return [file]
    found = [place_of(source, file) for source in _sources(file) if source.kind == "zim"]
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
    for source in _sources(path):
        if source.kind != "zim" or gone(source, path):
            continue
        try:
            with closing(Zim(place_of(source, path), _extractor(), source.name)) as zim:
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
        archive = Zim(file, _extractor())
        if archive.note:
            note(archive.note)
        return archive
    is_named = file.parent == settings.directories.corpora and not _OF_A_FOLDER.search(file.name)
    with said_by_name(file) if is_named else nullcontext():
        corpus = meaning.corpus(file, settings, note, check)
    archives: list[Zim] = []
    wrong: list[CorpusError] = []
    for source in _sources(file):
        if source.kind == "zim":
            try:
                archives.append(_archive(source, file))
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


def _archive(source: SourceRow, file: Path) -> Zim:
    """An archive that a corpus file reads in place. Raises CorpusError."""
    from venus_edge.corpus.zim import Zim

    place = place_of(source, file)
    if not place.is_file():
        raise CorpusError(f"corpus {file.stem} reads {place} in place, which is not there: copy it there")
    return Zim(place, _extractor(), source.name)
