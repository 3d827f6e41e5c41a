"""SOURCES -> A CORPUS FILE, in batches that are in it whole or not at all.

In: a Writer and the sources with their readers. Out: a `Report`. What was read and has not changed is not read again,
what is gone goes, and a pass that was interrupted (a kill at any moment too) goes on behind its last batch: nothing
twice, nothing lost. In memory is one batch, however large the source.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from venus_edge.corpus.ledger import FileRow, Ledger, SourceRow
from venus_edge.corpus.store import Document, Writer

BATCH_ITEMS, BATCH_BYTES, BATCH_SECONDS = 2_000, 16_000_000, 5.0  # what is written together: the first of these
MOST_LISTED = 1_000  # skipped items that a report holds; the corpus file has them all
_MOST_PASSES = 3  # until what a removed document had stood in the way of is in, too


@dataclass(frozen=True, slots=True)
class Record:
    """Something that may become a document. `path` tells it from the others of its source; where `mtime_ns` is known
    and the same as before, the body is not read. `size` is the bytes it takes in a batch."""

    path: str
    size: int
    body: Callable[[], bytes]
    make: Callable[[bytes], Document | str]
    mtime_ns: int = 0


@dataclass(frozen=True, slots=True)
class Redirect:
    """An address that leads to another one."""

    url: str
    target: str


@dataclass(frozen=True, slots=True)
class Skipped:
    """What is not in the corpus, and why."""

    path: str
    reason: str


Item = Record | Redirect | Skipped


@dataclass(frozen=True, slots=True)
class Read:
    """An item; how far the source is read with it, as a cursor to go on from and in bytes."""

    cursor: int
    bytes: int
    item: Item


@dataclass(frozen=True, slots=True)
class Size:
    """How much there is: files (0: not known before it is read) and bytes."""

    files: int
    bytes: int


class DamagedError(Exception):
    """The source cannot be read further."""


class Reader(Protocol):
    """A source, open."""

    def stamp(self) -> str:
        """The same as long as nothing has changed; "" where that is seen only file by file."""
        ...

    def size(self, report: Report) -> Size:
        """How much there is; what can be told beforehand to be left out goes into the report."""
        ...

    def read(self, cursor: int) -> Iterator[Read]:
        """The items behind `cursor`. Raises DamagedError."""
        ...


@dataclass(frozen=True, slots=True)
class Step:
    """Progress: this source's files or bytes, of all it has; documents written in this run."""

    source: str
    done: int
    total: int
    bytes: int
    bytes_total: int
    documents: int
    path: str


Progress = Callable[[Step], None]


@dataclass(slots=True)
class Report:
    """What an update came to, in documents. `documents` is what the corpus holds now, `unlisted` the number of skipped
    items beyond those that are listed, `others` files of kinds that are not read, by their suffix, `missing` sources
    that could not be looked at."""

    added: int = 0
    updated: int = 0
    unchanged: int = 0
    removed: int = 0
    documents: int = 0
    skipped: list[Skipped] = field(default_factory=list)
    unlisted: int = 0
    others: dict[str, int] = field(default_factory=dict, compare=False)
    missing: list[str] = field(default_factory=list, compare=False)

    def skip(self, path: str, reason: str) -> None:
        if len(self.skipped) < MOST_LISTED:
            self.skipped.append(Skipped(path, reason))
        else:
            self.unlisted += 1


@dataclass(slots=True)
class _Run:
    """What goes through all sources of one update."""

    writer: Writer
    ledger: Ledger
    report: Report
    progress: Progress | None
    released: bool = False
    clock: Callable[[], float] = time.monotonic


def update(writer: Writer, readers: Mapping[int, Reader], progress: Progress | None = None) -> Report:
    """Brings the corpus up to date with its sources; those that have no reader stay as they are."""
    run = _Run(writer, Ledger(writer.connection), Report(), progress)
    for _ in range(_MOST_PASSES):
        run.released = False
        for source in run.ledger.sources():
            if source.number in readers:
                _pass(run, source, readers[source.number])
        if not run.released:
            break
    with writer.batch():
        run.ledger.resolve()
    run.report.documents = writer.count()
    return run.report


def remove(writer: Writer, source: SourceRow) -> int:
    """Takes a source and its documents out; gives the number of documents."""
    run = _Run(writer, Ledger(writer.connection), Report(), None)
    _sweep(run, replace(source, pass_=-1))
    with writer.batch():
        run.ledger.drop_source(source)
    return run.report.removed


# -- one source -------------------------------------------------------------------------------------------------------


def _pass(run: _Run, source: SourceRow, reader: Reader) -> None:
    stamp = reader.stamp()
    if stamp and stamp == source.stamp:
        run.report.unchanged += run.ledger.counts(source)[0]
        return
    if stamp and stamp == source.begun:
        run.report.unchanged += run.ledger.counts(source)[0]
    else:
        source = replace(source, begun=stamp, pass_=source.pass_ + 1, cursor=0)
    size = _size(run, source, reader)
    items = reader.read(source.cursor)
    more = True
    try:
        while more:
            source, more = _write(run, source, items, size)
    except DamagedError as error:
        run.report.skip(source.name, str(error))
        return
    _sweep(run, source)
    with run.writer.batch():
        run.ledger.save(replace(source, stamp=stamp, begun="", cursor=0))


def _size(run: _Run, source: SourceRow, reader: Reader) -> Size:
    """How much there is. What is told beforehand to be left out is noted as what is left out later is."""
    told = Report(others=run.report.others)
    size = reader.size(told)
    with run.writer.batch():
        for skipped in told.skipped:
            _take(run, source, skipped)
    run.report.unlisted += told.unlisted
    return size


def _write(run: _Run, source: SourceRow, items: Iterator[Read], size: Size) -> tuple[SourceRow, bool]:
    """The next batch: the source as far as it was read with it, and whether there may be more. Where the source ends in
    damage, what was read before is written first."""
    until = run.clock() + BATCH_SECONDS
    count, bytes_, cursor = 0, 0, source.cursor
    damage: DamagedError | None = None
    more = False
    with run.writer.batch():
        try:
            for read in items:
                _take(run, source, read.item)
                _show(run, source, read, size)
                cursor = read.cursor
                count += 1
                bytes_ += read.item.size if isinstance(read.item, Record) else 0
                if more := count >= BATCH_ITEMS or bytes_ >= BATCH_BYTES or run.clock() >= until:
                    break
        except DamagedError as error:
            damage = error
        source = replace(source, cursor=cursor)
        run.ledger.save(source)
    if damage:
        raise damage
    return source, more


def _show(run: _Run, source: SourceRow, read: Read, size: Size) -> None:
    if run.progress:
        path = "" if isinstance(read.item, Redirect) else read.item.path
        written = run.report.added + run.report.updated
        run.progress(Step(source.name, read.cursor, size.files, read.bytes, size.bytes, written, path))


def _sweep(run: _Run, source: SourceRow) -> None:
    """Takes out what the pass has not come upon."""
    while gone := run.ledger.unseen(source, BATCH_ITEMS):
        with run.writer.batch():
            for path, row in gone:
                _forget(run, source.number, path, row)
                run.report.removed += not row.reason


# -- one item ---------------------------------------------------------------------------------------------------------


def _take(run: _Run, source: SourceRow, item: Item) -> None:
    """One item into the corpus, as far as it has changed."""
    if isinstance(item, Skipped):
        known = run.ledger.file(source.number, item.path)
        if known is None or known.reason:  # what was good before or after stays
            run.ledger.put(source, item.path, FileRow(0, 0, "", 0, item.reason))
        run.report.skip(item.path, item.reason)
    elif isinstance(item, Redirect):
        run.ledger.redirect(source, item.url, item.target)
    else:
        _take_record(run, source, item)


def _take_record(run: _Run, source: SourceRow, record: Record) -> None:
    known = run.ledger.file(source.number, record.path)
    if known and record.mtime_ns and (known.size, known.mtime_ns) == (record.size, record.mtime_ns):
        _keep(run, source, record.path, known)
        return
    try:
        body = record.body()
    except OSError as error:
        _skip(run, source, record.path, f"cannot be read: {error.strerror}", known)
        return
    digest = hashlib.sha256(body).hexdigest()
    now = FileRow(record.size, record.mtime_ns, digest, 0)
    if known and known.sha256 == digest:
        _keep(run, source, record.path, replace(now, document=known.document, reason=known.reason))
        return
    made = record.make(body)
    if isinstance(made, str):
        _skip(run, source, record.path, made, known, now)
        return
    _store(run, source, record.path, made, known, now)


def _keep(run: _Run, source: SourceRow, path: str, row: FileRow) -> None:
    run.ledger.put(source, path, row)
    if row.reason:
        run.report.skip(path, row.reason)
    else:
        run.report.unchanged += 1


def _skip(
    run: _Run, source: SourceRow, path: str, reason: str, known: FileRow | None, now: FileRow | None = None
) -> None:
    """Notes an item that gives no document, and takes out the one that it gave before. What a library is missing for is
    not noted: it may be there the next time."""
    run.report.skip(path, reason)
    if known:
        _forget(run, source.number, path, known)
    if now and "pip install" not in reason:
        run.ledger.put(source, path, replace(now, reason=reason))


def _forget(run: _Run, source: int, path: str, known: FileRow) -> None:
    if known.document and not known.reason:
        run.writer.drop(known.document)
        run.released |= run.ledger.release(known.document)
    run.ledger.drop(source, path)


def _store(run: _Run, source: SourceRow, path: str, document: Document, known: FileRow | None, now: FileRow) -> None:
    """Stores a document under those of its addresses that no other has."""
    if known:
        _forget(run, source.number, path, known)
    free = []
    in_the_way = 0
    for url in (document.url, *document.aliases):
        there = run.writer.find(url)
        if there is None:
            free.append(url)
        elif there[1] == document.sha256:
            _skip(run, source, path, f"the same text is there at {url}", None, replace(now, document=there[0]))
            return
        else:
            in_the_way = there[0]
    if not free:
        _skip(run, source, path, "another document has its address", None, replace(now, document=in_the_way))
        return
    number = run.writer.put(replace(document, url=free[0], aliases=tuple(free[1:])))
    renewed = known is not None and not known.reason
    run.report.updated += renewed
    run.report.added += not renewed
    run.ledger.put(source, path, FileRow(now.size, now.mtime_ns, now.sha256, number))
