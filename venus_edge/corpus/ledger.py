"""WHERE DOCUMENTS CAME FROM: the sources of a corpus, what was read of each, and how far the reading has come.

In: rows. Out: rows. Everything is written in the batches of `store.Writer`, so that a document and the note that it was
read are in the file together or not at all. What a source is and how it is read is not known here.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from venus_edge.corpus import address, tantivy_index
from venus_edge.corpus.store import MAGIC, check, check_version, connect, connect_to_read, translated
from venus_edge.errors import CorpusError

_SOURCE = "id, kind, place, name, stamp, begun, pass, cursor"
_START = 1 << 20  # bytes of a file in which its sources are looked for
_LONGEST_WAY = 5  # redirects that lead one to the next


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A source. `stamp` is that of the last whole pass, `begun` that of a pass which was not finished; `cursor` is how
    far it came. `place` is "" for the folder of a corpus that is known by its folder."""

    number: int
    kind: str
    place: str
    name: str
    stamp: str = ""
    begun: str = ""
    pass_: int = 0
    cursor: int = 0


@dataclass(frozen=True, slots=True)
class FileRow:
    """A file or record as it was when it was read, and the document it became; with a `reason` it became none, and
    `document` is the one that stands in its way, if it is that."""

    size: int
    mtime_ns: int
    sha256: str
    document: int
    reason: str = ""


class Ledger:
    """The notes in the file of a corpus."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    # -- sources

    def sources(self) -> list[SourceRow]:
        """All, in the order in which they were named."""
        return [SourceRow(*row) for row in self._db.execute(f"SELECT {_SOURCE} FROM source ORDER BY id")]

    def add(self, kind: str, place: str, name: str) -> SourceRow:
        """A new source; where another has its name, it gets a number behind it."""
        taken = {source.name for source in self.sources()}
        free = next(each for n in range(1, len(taken) + 2) if (each := name if n == 1 else f"{name}-{n}") not in taken)
        done = self._db.execute(
            "INSERT INTO source (kind, place, name, stamp, begun, pass, cursor) VALUES (?, ?, ?, '', '', 0, 0)",
            (kind, place, free),
        )
        return SourceRow(int(done.lastrowid or 0), kind, place, free)

    def save(self, source: SourceRow) -> None:
        self._db.execute(
            "UPDATE source SET place = ?, stamp = ?, begun = ?, pass = ?, cursor = ? WHERE id = ?",
            (source.place, source.stamp, source.begun, source.pass_, source.cursor, source.number),
        )

    def index_too(self, source: SourceRow) -> None:
        """An archive that was read in place is indexed from now on."""
        self._db.execute("UPDATE source SET kind = 'zim-index' WHERE id = ?", (source.number,))

    def read_again(self, number: int) -> None:
        """The next update reads this source whatever its stamp."""
        self._db.execute("UPDATE source SET stamp = '', begun = '', cursor = 0 WHERE id = ?", (number,))

    def drop_source(self, source: SourceRow) -> None:
        self._db.execute("DELETE FROM redirect WHERE source = ?", (source.number,))
        self._db.execute("DELETE FROM source WHERE id = ?", (source.number,))

    # -- what was read

    def file(self, source: int, path: str) -> FileRow | None:
        """What is known of a file."""
        row = self._db.execute(
            "SELECT size, mtime_ns, sha256, document, reason FROM file WHERE source = ? AND path = ?", (source, path)
        ).fetchone()
        return FileRow(*row) if row else None

    def put(self, source: SourceRow, path: str, row: FileRow) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (source.number, path, row.size, row.mtime_ns, row.sha256, row.document, row.reason, source.pass_),
        )

    def drop(self, source: int, path: str) -> None:
        self._db.execute("DELETE FROM file WHERE source = ? AND path = ?", (source, path))

    def unseen(self, source: SourceRow, limit: int) -> list[tuple[str, FileRow]]:
        """Some of the files that the present pass has not come upon."""
        rows = self._db.execute(
            "SELECT path, size, mtime_ns, sha256, document, reason FROM file WHERE source = ? AND pass <> ? LIMIT ?",
            (source.number, source.pass_, limit),
        )
        return [(path, FileRow(*rest)) for path, *rest in rows]

    def release(self, document: int) -> bool:
        """Lets the files in whose way this document stood be read again; whether there were any."""
        waiting = self._db.execute(
            "SELECT DISTINCT source FROM file WHERE reason <> '' AND document = ?", (document,)
        ).fetchall()
        for (number,) in waiting:
            self.read_again(number)
        self._db.execute("DELETE FROM file WHERE reason <> '' AND document = ?", (document,))
        return bool(waiting)

    def skipped(self, limit: int = -1) -> Iterator[tuple[str, str, str]]:
        """(source, path, reason) of what was read and is in the corpus with no document."""
        yield from self._db.execute(
            "SELECT name, path, reason FROM file JOIN source ON source.id = source WHERE reason <> ''"
            " ORDER BY source, path LIMIT ?",
            (limit,),
        )

    def counts(self, source: SourceRow) -> tuple[int, int]:
        """How many files of a source became documents in its last pass, and how many did not."""
        total, skipped = self._db.execute(
            "SELECT count(*), ifnull(sum(reason <> ''), 0) FROM file WHERE source = ? AND pass = ?",
            (source.number, source.pass_),
        ).fetchone()
        return total - skipped, skipped

    # -- addresses that lead elsewhere

    def redirect(self, source: SourceRow, url: str, target: str) -> None:
        here, there = address.key(url), address.key(target)
        if here != there:
            self._db.execute("INSERT OR REPLACE INTO redirect VALUES (?, ?, ?)", (here, there, source.number))

    def resolve(self) -> None:
        """Gives every redirect whose end is in the corpus to the document there."""
        for _ in range(_LONGEST_WAY):
            done = self._db.execute(
                "INSERT OR IGNORE INTO address (key, document) SELECT redirect.key, address.document"
                " FROM redirect JOIN address ON address.key = redirect.target"
                " WHERE NOT EXISTS (SELECT 1 FROM address AS there WHERE there.key = redirect.key)"
            )
            if done.rowcount <= 0:
                return


def export(index: Path, file: Path, archives: Mapping[str, str] | None = None) -> None:
    """Copies a corpus into a new file that tells nothing of this disk, with its index. Archives that it reads in place
    are looked for beside it, by their own names or those of `archives`. Raises CorpusError, StorageError; then there is
    no file."""
    check(index)
    try:
        _copy(index, file, archives or {})
    except BaseException:
        file.unlink(missing_ok=True)
        raise


def _copy(index: Path, file: Path, archives: Mapping[str, str]) -> None:
    with translated(file), closing(connect_to_read(index)) as reading:
        reading.execute("VACUUM INTO ?", (str(file),))
    with translated(file), closing(connect(file, "rw")) as copy:
        if tantivy_index.folder_of(copy, file):
            tantivy_index.end(copy)
        for source in Ledger(copy).sources():
            place = str(index.parent / source.place)
            beside = archives.get(place, Path(place).name) if source.kind == "zim" else ""
            copy.execute("UPDATE source SET place = ? WHERE id = ?", (beside, source.number))
        copy.execute("PRAGMA journal_mode = DELETE")
        copy.execute("VACUUM")  # what is overwritten is not left in the file


def sources_of(index: Path, checked: bool = True) -> list[SourceRow]:
    """The sources of a corpus, read beside whoever writes it; not `checked`, of one of another version, damaged
    elsewhere or cut, too. Raises CorpusError."""
    try:
        with translated(index), closing(connect_to_read(index)) as reading:
            if checked:
                check_version(reading, index)
            return Ledger(reading).sources()
    except CorpusError:
        if checked:
            raise
        with translated(index), closing(_start_of(index)) as reading:
            return Ledger(reading).sources()


def _start_of(index: Path) -> sqlite3.Connection:
    """The first pages of a file as a database that ends there: one that was cut is not opened otherwise."""
    with index.open("rb") as file:
        start = bytearray(file.read(_START))
    if not start.startswith(MAGIC):
        raise sqlite3.DatabaseError("file is not a database")
    start += bytes(_START - len(start))  # for the roots of its tables, which are not looked at
    size = int.from_bytes(start[16:18], "big") or 1
    pages = len(start) // (65_536 if size == 1 else size)
    start[18:20] = b"\1\1"  # no log beside it
    start[28:32] = pages.to_bytes(4, "big")
    start[92:96] = start[24:28]  # and that is the number of pages
    connection = sqlite3.connect(":memory:")
    connection.deserialize(bytes(start))
    return connection


def described(index: Path) -> list[tuple[SourceRow, int, int]]:
    """The sources with how many documents each gave, and how much of it was left out."""
    with translated(index), closing(connect_to_read(index)) as reading:
        ledger = Ledger(reading)
        return [(source, *ledger.counts(source)) for source in ledger.sources()]


def left_out(index: Path, most: int) -> list[tuple[str, str, str]]:
    """(source, path, reason) of what became no document."""
    with translated(index), closing(connect_to_read(index)) as reading:
        return list(Ledger(reading).skipped(most))
