"""CORPORA MADE AND CHANGED: create, add, update, remove, rebuild, embed, check, rm; pages of sessions packed.

In: a name and sources as a person names them. Out: a corpus file in the data directory, a Report of what was read. What
each kind of source holds is in `corpus`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from venus_edge.corpora.names import gone, mending, path_of, said_by_name, sources_in, there
from venus_edge.corpora.opening import archive_of
from venus_edge.corpora.sources import newest_of, readable, reader_of, readings
from venus_edge.corpus.places import AGAIN, distinct, holder, source_at, where
from venus_edge.errors import CorpusError, StorageError, UsageError
from venus_edge.settings import Settings

if TYPE_CHECKING:
    from venus_edge.corpus.collect import Progress, Reader, Report
    from venus_edge.corpus.store import Writer

Note = Callable[[str], None]


class _SourceGoneError(CorpusError):
    """A source of a corpus is not where it was."""


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
            known = {source.place for source in sources_in(path)}
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
        asked, damaged = readable(wanted, index, settings, stack)
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
        sources = sources_in(path)
    except (CorpusError, StorageError) as error:
        return [str(error).replace(store.BUILD, mending(path))]
    wrong = []
    for source in sources:
        if why := gone(source, path):
            wrong.append(why)
            continue
        if source.kind not in ("zim", "zim-index") or not source.place:  # indexed elsewhere
            continue
        try:
            if not archive_of(source, path).is_sound():
                wrong.append(f"{source.place}: the archive is damaged (its checksum is wrong); fetch it again")
        except CorpusError as error:
            wrong.append(str(error))
    return wrong


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
    newest = newest_of(sources)
    for source in sources:
        try:
            reader = reader_of(source, settings, stack, newest)
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


def pack_sessions(name: str, sessions: Iterable[Path], settings: Settings, progress: Progress | None = None) -> Report:
    """A corpus of the pages that these runs read; further sessions may join it. Raises UsageError if they read none."""
    from venus_edge.corpus.ledger import Ledger
    from venus_edge.corpus.store import Writer
    from venus_edge.corpus.writing import writing

    path, sessions = path_of(name, settings), list(sessions)
    if not any(next(readings(session), None) for session in sessions):
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
