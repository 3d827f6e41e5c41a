"""THE FILE OF A CORPUS: one SQLite database, its tables, its checks, and the only place that writes it.

In: documents and the files they came from. Out: rows; CorpusError or StorageError in one line for everything that a
database can be instead of a sound corpus. Ranking is `index`; what a folder holds is `folder`.

    meta      what this file is                        document  one address, its title, date, hash
    address   key of an address -> document            passage   the document's text, in consecutive parts
    source    where documents are taken from           words     FTS5, contentless: a row a passage
    file      what was read there, and what came of it  names     FTS5, contentless: title and address of a document
    redirect  an address that leads to another         text      the texts of passages, compressed (`texts`)
    (source, file and redirect are kept by `ledger`)
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from venus_edge import terms
from venus_edge.corpus import address, tantivy_index, texts
from venus_edge.corpus.batch import Batch, names_of, words_of
from venus_edge.errors import CorpusError, StorageError

SCHEMA = 5
MAGIC = b"SQLite format 3\0"  # how its files begin
APPLICATION_ID = 0x56454443  # "VEDC", in the file's header
PASSAGE = 2_400  # characters: a long document's passages rank on their own
BUILD = "venus-edge corpus build DIR"

_TOKENIZER = "porter unicode61 remove_diacritics 2 categories 'L* N* Co M*'"
# What a corpus is made of stands first: a file that was cut may still tell it.
_CREATE = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE source (
  id INTEGER PRIMARY KEY, kind TEXT NOT NULL, place TEXT NOT NULL, name TEXT NOT NULL UNIQUE, stamp TEXT NOT NULL,
  begun TEXT NOT NULL, pass INTEGER NOT NULL, cursor INTEGER NOT NULL);
CREATE TABLE document (
  id INTEGER PRIMARY KEY, url TEXT NOT NULL, host TEXT NOT NULL, title TEXT NOT NULL, date TEXT NOT NULL,
  sha256 TEXT NOT NULL, main INTEGER NOT NULL);
CREATE INDEX document_host ON document (host) WHERE host <> '';
CREATE TABLE address (key TEXT PRIMARY KEY, document INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX address_document ON address (document);
CREATE INDEX address_caseless ON address (key COLLATE NOCASE) WHERE key <> lower(key);
CREATE TABLE passage (id INTEGER PRIMARY KEY, document INTEGER NOT NULL, beside INTEGER NOT NULL);
CREATE INDEX passage_document ON passage (document);
CREATE TABLE text (first INTEGER PRIMARY KEY, parts BLOB NOT NULL);
CREATE TABLE file (
  source INTEGER NOT NULL, path TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, sha256 TEXT NOT NULL,
  document INTEGER NOT NULL, reason TEXT NOT NULL, pass INTEGER NOT NULL, PRIMARY KEY (source, path)) WITHOUT ROWID;
CREATE INDEX file_document ON file (document) WHERE reason <> '';
CREATE TABLE redirect (key TEXT PRIMARY KEY, target TEXT NOT NULL, source INTEGER NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE words USING fts5 (title, body, heading, beside, content='', tokenize="{_TOKENIZER}");
CREATE VIRTUAL TABLE names USING fts5 (title, address, content='', tokenize="{_TOKENIZER}");
INSERT INTO words (words, rank) VALUES ('rank', 'bm25(2.0, 1.0, 1.0, 0.5)');
INSERT INTO words (words, rank) VALUES ('hashsize', 2000000);
INSERT INTO words (words, rank) VALUES ('pgsz', 8000);
INSERT INTO words (words, rank) VALUES ('automerge', 16);
INSERT INTO meta VALUES ('terms', '{terms.VERSION}');
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA};
"""
_PASSAGES = f"SELECT id, beside, first, parts FROM passage {texts.JOINED} WHERE document = ? ORDER BY id"
_DELETE = "INSERT INTO words (words, rowid, title, body, heading, beside) VALUES ('delete', ?, ?, ?, ?, ?)"
BETWEEN = "\n\n"  # the main text and the rest


@dataclass(frozen=True, slots=True)
class Document:
    """What goes in: a text under an address. `aliases` are further addresses that open it; `rest` is what stands around
    the main text and counts less."""

    url: str
    title: str
    text: str
    date: str = ""
    aliases: tuple[str, ...] = ()
    rest: str = ""

    @property
    def full(self) -> str:
        return f"{self.text}{BETWEEN}{self.rest}" if self.rest else self.text

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.full.encode()).hexdigest()


# -- errors of the database, translated once --------------------------------------------------------------------------


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """sqlite3's errors as ours, in one line; a text that does not decompress is damage too."""
    try:
        yield
    except zlib.error as error:
        raise damaged(path) from error
    except sqlite3.DatabaseError as error:
        raise _meaning(path, error) from error


def _meaning(path: Path, error: sqlite3.DatabaseError) -> CorpusError | StorageError:
    said = str(error)
    if "locked" in said or "busy" in said:
        return CorpusError(f"{path}: another process is writing this corpus; try again when it has finished")
    if "full" in said or "readonly" in said or "disk I/O" in said or "unable to open" in said:
        return StorageError(f"{path}: {said}; free space, or set VENUS_DATA_DIR to a directory of yours")
    if "no such module" in said:
        return CorpusError("the SQLite of this Python has no FTS5; use a Python of python.org or your distribution")
    if "not a database" in said:
        return CorpusError(f"{path} is not a corpus; make one with: {BUILD}")
    return damaged(path)


def damaged(path: Path) -> CorpusError:
    return CorpusError(f"{path}: the corpus is damaged; make it again (the old file is kept) with: {BUILD}")


# -- opening ----------------------------------------------------------------------------------------------------------


def connect(path: Path, mode: str) -> sqlite3.Connection:
    """A connection that begins no transaction by itself and may go from thread to thread."""
    uri = f"{path.absolute().as_uri()}?mode={mode}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False, timeout=20)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A reading connection; from a medium that cannot be written too, where WAL needs to be told so."""
    connection = connect(path, "ro")
    try:
        connection.execute("SELECT 1 FROM sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if path.with_name(path.name + "-wal").exists():
            raise
        connection = connect(path, "ro&immutable=1")
    return connection


def beside(path: Path) -> Path | None:
    """The folder of the index beside a corpus file; None where it is in the file. Raises CorpusError, StorageError."""
    with translated(path), closing(connect_to_read(path)) as db:
        return tantivy_index.folder_of(db, path)


def check(path: Path, beside: bool = True) -> None:
    """Raises CorpusError unless `path` is a sound corpus of this version. Reads the whole index once: a damaged one
    would answer with a part of the hits and no error. Not `beside`: only the file, which all else is made of."""
    if not path.is_file():
        raise CorpusError(f"there is no corpus at {path}; make one with: {BUILD}")
    _check_size(path)
    connection: sqlite3.Connection | None = None
    try:
        with translated(path):
            connection = connect_to_read(path)
            check_version(connection, path)
            connection.execute("BEGIN")  # one state of it, whatever another process writes meanwhile
            if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise damaged(path)
            folder = tantivy_index.folder_of(connection, path)
            _check_words(connection, path, folder is None)
            if beside and folder:
                tantivy_index.check(connection, folder)
    finally:
        if connection is not None:
            connection.close()


def _check_size(path: Path) -> None:
    """A file shorter than its header says has been cut; SQLite itself sees it only where it reads."""
    header = header_of(path)
    if not header:
        raise CorpusError(f"{path} is empty; make the corpus with: {BUILD}")
    if not header.startswith(MAGIC):
        raise CorpusError(f"{path} is not a corpus; make one with: {BUILD}")
    if _has_log(path):
        return  # a checkpoint that was ended in the middle: the rest of the pages is in the log, and is read from there
    page_size = int.from_bytes(header[16:18], "big")
    page_size = 65_536 if page_size == 1 else page_size
    is_current = header[24:28] == header[92:96]  # else the header's count of pages is not kept
    if is_current and path.stat().st_size < page_size * int.from_bytes(header[28:32], "big"):
        raise damaged(path)


def header_of(path: Path) -> bytes:
    """SQLite's header, 100 bytes. Raises StorageError for a file that cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(100)
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}; allow it to be read, or name another corpus") from error


def _has_log(path: Path) -> bool:
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def check_version(connection: sqlite3.Connection, path: Path) -> None:
    """Raises CorpusError for another program's database and for a corpus of another version."""
    if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:  # ended before its tables were made
        raise CorpusError(f"{path} is empty; make the corpus with: {BUILD}")
    if connection.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise CorpusError(f"{path} is a database, but not a corpus; make one with: {BUILD}")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > SCHEMA:
        raise CorpusError(f"{path} was made by a newer venus-edge; update this one, or make the corpus with: {BUILD}")
    reading = connection.execute("SELECT value FROM meta WHERE name = 'terms'").fetchone()
    if version < SCHEMA or reading != (str(terms.VERSION),):
        raise CorpusError(f"{path} was made by an older venus-edge; make it again with: {BUILD}")


def _check_words(reading: sqlite3.Connection, path: Path, indexed: bool) -> None:
    """FTS5's own check where the file can be written (it is an INSERT); a count of its words where not."""
    rows = reading.execute("SELECT count(*) FROM passage").fetchone()[0] if indexed else 0
    documents = reading.execute("SELECT count(*) FROM document").fetchone()[0]
    for table, expected in (("words", rows), ("names", documents)):
        if _is_checked_by_fts5(path, table):
            continue
        totals = _totals(reading.execute(f"SELECT block FROM {table}_data WHERE id = 1").fetchone()[0])
        reading.execute(f"CREATE VIRTUAL TABLE temp.{table}_seen USING fts5vocab ('main', '{table}', 'row')")
        seen = reading.execute(f"SELECT ifnull(sum(cnt), 0) FROM temp.{table}_seen").fetchone()[0]
        if (totals[0], sum(totals[1:])) != (expected, seen):
            raise damaged(path)


def _is_checked_by_fts5(path: Path, table: str) -> bool:
    writing = connect(path, "rw")
    try:
        writing.execute("PRAGMA busy_timeout = 0")
        writing.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
    except sqlite3.OperationalError as error:
        if "malformed" in str(error):
            raise
        return False  # read-only, or being written by another process
    finally:
        writing.close()
    return True


def _totals(block: bytes) -> list[int]:
    """FTS5's averages record: variable-length integers, the rows and then the words of each column."""
    numbers, number = [], 0
    for byte in block:
        number = number << 7 | byte & 0x7F
        if byte < 0x80:
            numbers.append(number)
            number = 0
    return numbers or [0]


# -- writing ----------------------------------------------------------------------------------------------------------


class Writer:
    """The one that writes: documents in, documents out, in batches that are in the file whole or not at all."""

    def __init__(self, path: Path, engine: str = "", new: bool = True) -> None:
        """Opens the corpus at `path`, or begins one there, with an index of `engine` if it is "tantivy"; what is there
        and damaged or old is kept aside. Not `new`: that raises CorpusError, because a corpus that is begun there knows
        nothing of the sources of the old one."""
        if engine == tantivy_index.ENGINE:
            tantivy_index.library()
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StorageError(
                f"{path.parent}: {error.strerror}; set VENUS_DATA_DIR to a directory of yours"
            ) from error
        if new:
            _make_room(path)
        else:
            check(path, beside=False)
        with translated(path):
            self._db = connect(path, "rwc")
            try:
                self._begin_file(engine)
                folder = tantivy_index.folder_of(self._db, path)
                self._follower = tantivy_index.Follower(self._db, path, folder) if folder else None
                self._batch = Batch(self._db, indexed=folder is None)
            except BaseException:
                self._db.close()
                raise

    def _begin_file(self, engine: str) -> None:
        self._db.execute("PRAGMA page_size = 8192")  # with fewer and larger steps to the disk, 5% less time
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA wal_autocheckpoint = 4000")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.execute("PRAGMA cache_size = -32000")
        if self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            beside = tantivy_index.BEGIN if engine == tantivy_index.ENGINE else ""
            self._db.executescript(f"BEGIN IMMEDIATE; {_CREATE} {beside} COMMIT;")

    @property
    def connection(self) -> sqlite3.Connection:
        """For `ledger`, which writes in the same batches."""
        return self._db

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close(whole=kind is None)

    def close(self, whole: bool = True) -> None:
        """Everything goes into the one file; the journal beside it goes away with the last reader. Not `whole`: what
        tantivy does not have yet waits for the next writer."""
        try:
            with translated(self._path):
                if self._follower:
                    self._follower.close(whole)
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            self._db.close()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """What is put and dropped inside is written together; an exception writes none of it."""
        with translated(self._path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._batch.send()
            except BaseException:
                if self._db.in_transaction:  # a full disk has ended it already
                    self._db.execute("ROLLBACK")
                raise
            finally:
                self._batch.clear()
            self._db.execute("COMMIT")
            if self._follower:
                self._follower.follow(tantivy_index.MANY)

    def find(self, url: str) -> tuple[int, str] | None:
        """The id and text hash of the document at this address."""
        key = address.key(url)
        row = (
            self._batch.find(key)
            or self._db.execute(
                "SELECT id, sha256 FROM document JOIN address ON document = id WHERE key = ?", (key,)
            ).fetchone()
        )
        return (row[0], row[1]) if row else None

    def put(self, document: Document) -> int:
        """Stores a document in the place of the one at its address, and gives its id. Inside a batch only."""
        old = self.find(document.url)
        if old:
            self.drop(old[0])
        main, beside = _parts(document.text), _parts(BETWEEN + document.rest) if document.rest else []
        title, url = _storable(document.title), _storable(document.url)
        return self._batch.put(title, url, document.date, document.aliases, main, beside)

    def drop(self, document: int) -> None:
        """Takes a document out. A contentless table wants to be told what it had: the same words from the same text."""
        self._batch.send()
        row = self._db.execute("SELECT title, url FROM document WHERE id = ?", (document,)).fetchone()
        if row is None:
            return
        passages = self._db.execute(_PASSAGES, (document,)).fetchall()
        title = terms.spaced(row[0])
        for passage, beside, first, parts in passages if self._follower is None else ():
            words = words_of(title, texts.part(parts, passage - first), beside)
            self._db.execute(_DELETE, (passage, *words))
        texts.drop(self._db, [passage for passage, *_ in passages])
        self._db.execute(
            "INSERT INTO names (names, rowid, title, address) VALUES ('delete', ?, ?, ?)", (document, *names_of(*row))
        )
        for table, column in (("passage", "document"), ("address", "document"), ("document", "id")):
            self._db.execute(f"DELETE FROM {table} WHERE {column} = ?", (document,))

    def count(self) -> int:
        """Documents in the corpus."""
        with translated(self._path):
            return int(self._db.execute("SELECT count(*) FROM document").fetchone()[0])


def _parts(text: str) -> list[str]:
    text = _storable(text)
    return [text[start:end] for start, end in terms.passages(text, PASSAGE)]


def _storable(text: str) -> str:
    """Lone surrogates, which UTF-8 cannot hold, as replacement characters."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _make_room(path: Path) -> None:
    """Moves aside what is at `path` and is no sound corpus of this version. Raises CorpusError for what is somebody
    else's database, or a newer version's."""
    if not path.exists() or path.stat().st_size == 0:
        return
    try:
        check(path, beside=False)
    except CorpusError as error:
        if "newer" in str(error) or "a database, but" in str(error) or "another process" in str(error):
            raise
        if "is empty" not in str(error):
            aside(path)


def aside(path: Path) -> Path:
    """Renames a corpus file, with what SQLite keeps beside it, to the first free `NAME.old-N`; gives that path."""
    number = 1
    while (kept := path.with_name(f"{path.name}.old-{number}")).exists():
        number += 1
    try:
        for suffix in ("", "-wal", "-shm"):
            part = path.with_name(path.name + suffix)
            if part.exists():
                part.rename(kept.with_name(kept.name + suffix))
    except OSError as error:
        raise StorageError(f"{path}: {error.strerror}; remove the damaged corpus by hand") from error
    return kept
