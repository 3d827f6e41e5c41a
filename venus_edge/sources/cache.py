"""PAGES, WHAT WAS READ OF THEM AND RESULTS ON DISK: one SQLite file. In: a key, a response and its extract, evidence,
hits. Out: what is kept.

A damaged entry is a miss, a damaged file is put aside and begun anew; several processes and threads share the file, and
a kill at any moment leaves it sound (WAL, one transaction a page). Nothing here raises for what is on the disk: without
a working cache pages are fetched. Freshness: `freshness`. The clock is the caller's.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

from venus_edge.sources import freshness
from venus_edge.sources.address import parse
from venus_edge.sources.extract import Extracted
from venus_edge.sources.http import Response
from venus_edge.values import Evidence, Failure, Hit, Trouble

T = TypeVar("T")
FILE = "pages.sqlite"
DEFAULT_BYTES = 500_000_000
_FAILURE_SECONDS = 600.0  # a consent wall or a missing page may be another thing soon
_TOUCH_SECONDS = 60.0  # use is noted at most once a minute
_WAIT_SECONDS = 10.0  # for another process's write
RESULTS_SECONDS = 86_400.0  # results of a search are fresh for a day,
_NOTHING_SECONDS = 600.0  # that there are none for ten minutes
_MOST_RESULTS = 5_000  # searches that are kept,
_MOST_READINGS = 10_000  # and readings
_LAYOUT = 3  # of the tables
_OLD_PAGES = 1  # the last layout whose pages are not taken over
_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS page (
  key TEXT PRIMARY KEY, url TEXT NOT NULL, status INTEGER NOT NULL, headers TEXT NOT NULL, body BLOB NOT NULL,
  sha256 TEXT NOT NULL, fetched_at REAL NOT NULL, fresh_until REAL NOT NULL, last_used REAL NOT NULL,
  size INTEGER NOT NULL, variant TEXT NOT NULL, extract BLOB NOT NULL, extractor INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS page_used ON page (last_used);
CREATE TABLE IF NOT EXISTS results (
  key TEXT PRIMARY KEY, hits BLOB NOT NULL, kept_at REAL NOT NULL, fresh_until REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS reading (
  number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, page TEXT NOT NULL, evidence BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS reading_page ON reading (page);
PRAGMA user_version = {_LAYOUT};
"""


@dataclass(frozen=True, slots=True)
class Copy:
    """A page as it is kept. `url` is where it came from after redirects, `extractor` the version of the rules that made
    `extracted`; `sha256` is of the body."""

    key: str
    url: str
    headers: tuple[tuple[str, str], ...]
    sha256: str
    fetched_at: float
    fresh_until: float
    size: int
    extracted: Extracted | Failure
    extractor: int

    @property
    def conditions(self) -> dict[str, str]:
        """The headers that ask whether it is still the page."""
        return freshness.conditions(dict(self.headers))

    @property
    def said(self) -> str:
        """All of the page's text, or why it has none."""
        return self.extracted.detail if isinstance(self.extracted, Failure) else self.extracted.full

    def header(self, name: str) -> str:
        return dict(self.headers).get(name, "")


@dataclass(frozen=True, slots=True)
class Stats:
    """How much is kept: pages, and bytes as they count against the limit; searches; readings of pages."""

    pages: int
    bytes: int
    searches: int = 0
    readings: int = 0


@dataclass(frozen=True, slots=True)
class Line:
    """A page in a list: what a person wants to know of it."""

    key: str
    title: str
    size: int
    fetched_at: float
    fresh_until: float
    trouble: str = ""


class Cache:
    """The cache in `directory`. `asked` are the headers that pages are asked for with, for those that vary by them.

    `trouble` says why the disk does not serve, "" while it does.
    """

    def __init__(self, directory: Path, limit: int = DEFAULT_BYTES, asked: Mapping[str, str] | None = None) -> None:
        self.path = directory / FILE
        self.trouble = ""
        self._limit = limit
        self._asked = {name.lower(): value for name, value in (asked or {}).items()}
        self._lock = threading.Lock()
        self._open: sqlite3.Connection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._drop()

    def is_sound(self) -> bool:
        """Whether the file, if there is one, can be read. Nothing is changed: a damaged one is put aside when used."""
        return not self.path.exists() or _is_sound(self.path)

    # -- what a visit needs

    def get(self, key: str, now: float) -> Copy | None:
        """The copy kept of `key`, fresh or not."""
        return self._safely(lambda db: self._get(db, key, now), None)

    def put(self, key: str, response: Response, extracted: Extracted | Failure, extractor: int, now: float) -> None:
        """Keeps a response and its extract, unless the server forbids it or it alone would fill the cache."""
        headers = dict(response.headers)
        if not freshness.may_keep(headers):
            self.remove(key)
            return
        until = freshness.fresh_until(headers, now)
        if isinstance(extracted, Failure):
            until = min(until, now + _FAILURE_SECONDS)
        row = _row(key, response, extracted, extractor, now, until)
        row["variant"] = _variant(headers.get("vary", ""), self._asked)
        if row["size"] * 2 <= self._limit:
            self._safely(lambda db: self._put(db, row), None)

    def refresh(self, copy: Copy, response: Response, now: float) -> Copy:
        """The copy after the server said that it is still the page (304): the new headers count."""
        headers = {**dict(copy.headers), **{k: v for k, v in response.headers if k not in _OF_THE_MESSAGE}}
        until = freshness.fresh_until(headers, now)
        values = (json.dumps(list(headers.items())), now, until, now, copy.key)

        def write(db: sqlite3.Connection) -> None:
            db.execute("UPDATE page SET headers=?, fetched_at=?, fresh_until=?, last_used=? WHERE key=?", values)

        self._safely(write, None)
        return Copy(
            copy.key,
            copy.url,
            tuple(headers.items()),
            copy.sha256,
            now,
            until,
            copy.size,
            copy.extracted,
            copy.extractor,
        )

    def body(self, key: str) -> bytes | None:
        """The bytes of a page as they came, to extract them again."""

        def read(db: sqlite3.Connection) -> bytes | None:
            row = db.execute("SELECT body, sha256 FROM page WHERE key=?", (key,)).fetchone()
            body = _inflated(row["body"]) if row is not None else None
            return body if body is not None and hashlib.sha256(body).hexdigest() == row["sha256"] else None

        return self._safely(read, None)

    def put_extract(self, key: str, extracted: Extracted | Failure, extractor: int) -> None:
        """Replaces what was extracted from a kept page."""
        values = (_packed(extracted), extractor, key)
        self._safely(lambda db: db.execute("UPDATE page SET extract=?, extractor=? WHERE key=?", values), None)

    # -- what a search needs

    def results(self, key: str, now: float, stale: bool = False) -> tuple[Hit, ...] | None:
        """The results kept of a search while they are fresh, or whatever their age; () if there were none."""

        def read(db: sqlite3.Connection) -> tuple[Hit, ...] | None:
            row = db.execute("SELECT hits, fresh_until FROM results WHERE key=?", (key,)).fetchone()
            if row is None or (row["fresh_until"] <= now and not stale):
                return None
            return _hits(row["hits"])

        return self._safely(read, None)

    def keep_results(self, key: str, hits: tuple[Hit, ...], now: float) -> None:
        """Keeps the results of a search; those of the oldest make room."""
        packed = _sealed([[h.title, h.url, h.snippet, h.date] for h in hits])
        row = (key, packed, now, now + (RESULTS_SECONDS if hits else _NOTHING_SECONDS))

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?)", row)
            db.execute(
                "DELETE FROM results WHERE key IN (SELECT key FROM results ORDER BY kept_at DESC LIMIT -1 OFFSET ?)",
                (_MOST_RESULTS,),
            )

        self._safely(write, None)

    # -- what a reader needs

    def reading(self, key: str) -> Evidence | None:
        """What was read under this key."""

        def read(db: sqlite3.Connection) -> Evidence | None:
            row = db.execute("SELECT evidence FROM reading WHERE key=?", (key,)).fetchone()
            return _evidence(row["evidence"]) if row is not None else None

        return self._safely(read, None)

    def keep_reading(self, key: str, page: str, evidence: Evidence) -> None:
        """Keeps what was read of a page, which is named by the hash of its text; the oldest make room."""
        row = (key, page, _sealed([evidence.evidence, evidence.summary]))

        def write(db: sqlite3.Connection) -> None:
            db.execute("INSERT OR REPLACE INTO reading (key, page, evidence) VALUES (?, ?, ?)", row)
            db.execute("DELETE FROM reading WHERE number <= (SELECT max(number) FROM reading) - ?", (_MOST_READINGS,))

        self._safely(write, None)

    # -- what a person needs

    def lines(self, like: str = "") -> tuple[Line, ...]:
        """Every page whose address holds `like`, the last used first."""

        def read(db: sqlite3.Connection) -> tuple[Line, ...]:
            rows = db.execute("SELECT * FROM page WHERE instr(key, ?) ORDER BY last_used DESC, key", (like,))
            return tuple(_line(row) for row in rows)

        return self._safely(read, ())

    def find(self, written: str) -> Copy | None:
        """The copy of an address as a person writes it."""
        address = parse(written)
        return None if isinstance(address, Failure) else self.get(address.url, 0.0)

    def export(self, file: Path) -> bool:
        """Copies everything into a new file, for another machine to take in. False: `trouble` says why not."""
        self.trouble = ""
        self._safely(lambda db: db.execute("VACUUM INTO ?", (str(file),)), None)
        return not self.trouble

    def take_in(self, file: Path) -> int:
        """Adds the pages and results of an exported file that are newer than one's own: how many. -1 if it is none."""

        def write(db: sqlite3.Connection) -> int:
            db.execute("ATTACH ? AS other", (f"file:{quote(str(file.resolve()))}?mode=ro",))
            try:
                return _taken_in(db)
            finally:
                db.execute("DETACH other")

        return self._safely(write, -1) if _is_export(file) else -1

    def keys(self) -> tuple[str, ...]:
        """Every key, the last used first."""

        def read(db: sqlite3.Connection) -> tuple[str, ...]:
            return tuple(r["key"] for r in db.execute("SELECT key FROM page ORDER BY last_used DESC, key"))

        return self._safely(read, ())

    def stats(self) -> Stats:
        def read(db: sqlite3.Connection) -> Stats:
            count, total = db.execute("SELECT count(*), coalesce(sum(size), 0) FROM page").fetchone()
            searches, readings = (
                db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in ("results", "reading")
            )
            return Stats(count, total, searches, readings)

        return self._safely(read, Stats(0, 0))

    def remove(self, key: str) -> bool:
        """Whether there was a page to remove; what was read of it goes too."""

        def write(db: sqlite3.Connection) -> bool:
            row = db.execute("SELECT * FROM page WHERE key=?", (key,)).fetchone()
            copy = _copy(row) if row is not None else None
            if copy is not None:
                db.execute("DELETE FROM reading WHERE page=?", (hashlib.sha256(copy.said.encode()).hexdigest(),))
            return db.execute("DELETE FROM page WHERE key=?", (key,)).rowcount > 0

        return self._safely(write, False)

    def clear(self) -> None:
        """Removes every page, reading and search and gives the disk space back."""

        def write(db: sqlite3.Connection) -> None:
            for table in ("page", "results", "reading"):
                db.execute(f"DELETE FROM {table}")
            db.execute("VACUUM")

        self._safely(write, None)

    # -- the file

    def _get(self, db: sqlite3.Connection, key: str, now: float) -> Copy | None:
        row = db.execute("SELECT * FROM page WHERE key=?", (key,)).fetchone()
        if row is None:
            return None
        copy = _copy(row)
        if copy is None:
            db.execute("DELETE FROM page WHERE key=?", (key,))
        elif row["variant"] != _variant(copy.header("vary"), self._asked):
            return None
        elif now - row["last_used"] > _TOUCH_SECONDS:
            db.execute("UPDATE page SET last_used=? WHERE key=?", (now, key))
        return copy

    def _put(self, db: sqlite3.Connection, row: dict[str, Any]) -> None:
        names = ", ".join(row)
        marks = ", ".join(f":{name}" for name in row)
        db.execute("BEGIN IMMEDIATE")
        try:
            db.execute(f"INSERT OR REPLACE INTO page ({names}) VALUES ({marks})", row)
            self._evict(db)
            db.execute("COMMIT")
        except BaseException:
            db.execute("ROLLBACK")
            raise

    def _evict(self, db: sqlite3.Connection) -> None:
        """Lets the least recently used go until a tenth of the limit is free."""
        (total,) = db.execute("SELECT coalesce(sum(size), 0) FROM page").fetchone()
        if total <= self._limit:
            return
        for row in db.execute("SELECT key, size FROM page ORDER BY last_used, fetched_at").fetchall():
            db.execute("DELETE FROM page WHERE key=?", (row["key"],))
            total -= row["size"]
            if total <= self._limit * 0.9:
                return

    def _safely(self, work: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """`work` on the open file. A damaged file is put aside, once; any other trouble with the disk is noted."""
        with self._lock:
            for attempt in (1, 2):
                try:
                    return work(self._connection())
                except sqlite3.OperationalError as error:  # locked, full, read-only: the file may be sound
                    self.trouble = str(error)
                    self._drop()
                    return otherwise
                except sqlite3.DatabaseError as error:
                    self.trouble = str(error)
                    self._drop()
                    if attempt == 1:
                        self._put_aside()
                except OSError as error:
                    self.trouble = str(error)
                    return otherwise
            return otherwise

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            db = sqlite3.connect(
                f"file:{quote(str(self.path.absolute()))}",
                uri=True,
                timeout=_WAIT_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            db.row_factory = sqlite3.Row
            try:
                _prepare(db)
            except BaseException:
                db.close()
                raise
            self._open, self.trouble = db, ""
        return self._open

    def _drop(self) -> None:
        if self._open is not None:
            with suppress(sqlite3.Error):
                self._open.close()
            self._open = None

    def _put_aside(self) -> None:
        """Renames a damaged file and its companions, unless another process did so already."""
        if _is_sound(self.path):
            return
        number = next(n for n in range(1, 10_000) if not self.path.with_name(f"{FILE}.damaged-{n}").exists())
        for suffix in ("-wal", "-shm", ""):
            with suppress(OSError):
                self.path.with_name(FILE + suffix).replace(self.path.with_name(f"{FILE}.damaged-{number}{suffix}"))


_OF_THE_MESSAGE = frozenset(("content-length", "content-encoding", "transfer-encoding", "connection"))


def _prepare(db: sqlite3.Connection) -> None:
    _write_ahead(db)
    db.execute("PRAGMA synchronous = NORMAL")
    layout = db.execute("PRAGMA user_version").fetchone()[0]
    if layout != _LAYOUT:
        db.executescript(("DROP TABLE IF EXISTS page;" if layout == _OLD_PAGES else "") + _SCHEMA)


def _write_ahead(db: sqlite3.Connection) -> None:
    """WAL. While another process opens the file for the first time too, SQLite refuses this at once: it is not waited
    for as a write is."""
    patient = time.monotonic() + _WAIT_SECONDS
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > patient:
                raise
            time.sleep(0.01)


def _is_export(file: Path) -> bool:
    """Whether a file is a sound cache of this layout."""
    if not file.is_file() or not _is_sound(file):
        return False
    db = sqlite3.connect(f"file:{quote(str(file.resolve()))}?mode=ro", uri=True)
    try:
        return bool(db.execute("PRAGMA user_version").fetchone()[0] == _LAYOUT)
    finally:
        db.close()


def _taken_in(db: sqlite3.Connection) -> int:
    """Copies what the attached file has newer, and counts it."""
    added = 0
    db.execute("BEGIN IMMEDIATE")
    try:
        for table, date in (("page", "fetched_at"), ("results", "kept_at")):
            names = ", ".join(row["name"] for row in db.execute(f"PRAGMA main.table_info({table})"))
            done = db.execute(
                f"INSERT OR REPLACE INTO main.{table} ({names}) SELECT {names} FROM other.{table} AS o WHERE NOT EXISTS"
                f" (SELECT 1 FROM main.{table} AS m WHERE m.key = o.key AND m.{date} >= o.{date})"
            )
            added += done.rowcount
        names = "key, page, evidence"
        db.execute(f"INSERT OR IGNORE INTO main.reading ({names}) SELECT {names} FROM other.reading")
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise
    return added


def _is_sound(path: Path) -> bool:
    try:
        db = sqlite3.connect(path, timeout=_WAIT_SECONDS)
        try:
            return bool(db.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))
        finally:
            db.close()
    except sqlite3.DatabaseError:
        return False


# -- rows ------------------------------------------------------------------------------------------------------------


def _row(
    key: str, response: Response, extracted: Extracted | Failure, extractor: int, now: float, until: float
) -> dict[str, Any]:
    body, packed = zlib.compress(response.body, 6), _packed(extracted)
    headers = json.dumps(list(response.headers))
    return {
        "key": key,
        "url": response.url,
        "status": response.status,
        "headers": headers,
        "body": body,
        "sha256": hashlib.sha256(response.body).hexdigest(),
        "fetched_at": now,
        "fresh_until": until,
        "last_used": now,
        "size": len(body) + len(packed) + len(headers) + 500,
        "extract": packed,
        "extractor": extractor,
    }


def _packed(extracted: Extracted | Failure) -> bytes:
    """The extract as compressed JSON behind its own checksum."""
    if isinstance(extracted, Failure):
        value = {"failure": extracted.trouble.name, "detail": extracted.detail}
    else:
        value = {name: getattr(extracted, name) for name in Extracted.__slots__}
    return _sealed(value)


def _sealed(value: object) -> bytes:
    data = json.dumps(value, ensure_ascii=False).encode()
    return zlib.crc32(data).to_bytes(4, "big") + zlib.compress(data, 6)


def _opened(packed: bytes) -> Any:
    """What was sealed; None if it is damaged."""
    data = _inflated(packed[4:])
    if data is None or zlib.crc32(data).to_bytes(4, "big") != packed[:4]:
        return None
    return json.loads(data)


def _hits(packed: bytes) -> tuple[Hit, ...] | None:
    try:
        return tuple(Hit(*map(str, fields)) for fields in _opened(packed))
    except (ValueError, TypeError):
        return None


def _evidence(packed: bytes) -> Evidence | None:
    try:
        return Evidence(*map(str, _opened(packed)))
    except (ValueError, TypeError):
        return None


def _variant(vary: str, asked: Mapping[str, str]) -> str:
    """What the headers that a response varies by were when it was asked for (RFC 9111, 4.1). Encodings do not count:
    bodies are kept decoded."""
    names = sorted({name.strip().lower() for name in vary.split(",")} - {"", "accept-encoding"})
    return "\n".join(f"{name}: {asked.get(name, '')}" for name in names)


def _line(row: sqlite3.Row) -> Line:
    copy = _copy(row)
    extracted = copy.extracted if copy is not None else Failure(Trouble.UNREADABLE, "damaged")
    return Line(
        row["key"],
        "" if isinstance(extracted, Failure) else extracted.title,
        row["size"],
        row["fetched_at"],
        row["fresh_until"],
        extracted.detail if isinstance(extracted, Failure) else "",
    )


def _unpacked(packed: bytes) -> Extracted | Failure | None:
    value = _opened(packed)
    if value is None:
        return None
    if "failure" in value:
        return Failure(Trouble[value["failure"]], value["detail"])
    return Extracted(**value)


def _inflated(data: bytes) -> bytes | None:
    try:
        return zlib.decompress(data)
    except zlib.error:
        return None


def _copy(row: sqlite3.Row) -> Copy | None:
    """The copy in a row; None if the row is damaged."""
    try:
        extracted = _unpacked(row["extract"])
        headers = tuple((str(k), str(v)) for k, v in json.loads(row["headers"]))
    except (ValueError, TypeError, KeyError):
        return None
    if extracted is None:
        return None
    return Copy(
        row["key"],
        row["url"],
        headers,
        row["sha256"],
        row["fetched_at"],
        row["fresh_until"],
        row["size"],
        extracted,
        row["extractor"],
    )
