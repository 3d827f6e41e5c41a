"""WHAT A BATCH HOLDS UNTIL IT IS WRITTEN: rows of documents, sent to SQLite many at a time.

In: documents with their numbers. Out: the rows of `store`'s tables. What is still held is found by `find`; nothing here
begins or ends a transaction. Sent one by one, rows cost a sixth more.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Sequence

from venus_edge import terms
from venus_edge.corpus import address

_LEVEL = 1  # of zlib: within 2% of level 6 in size for passages, and a sixth faster
_MOST = 4_000_000  # characters that are held

_INSERTS = (
    "INSERT INTO document (id, url, host, title, date, sha256) VALUES (?, ?, ?, ?, ?, ?)",
    "INSERT OR IGNORE INTO address (key, document) VALUES (?, ?)",
    "INSERT INTO names (rowid, title, address) VALUES (?, ?, ?)",
    "INSERT INTO passage (id, document, text) VALUES (?, ?, ?)",
    "INSERT INTO words (rowid, title, body) VALUES (?, ?, ?)",
)
_Row = tuple[object, ...]


class Batch:
    """The rows of some documents, for one connection that alone writes meanwhile."""

    def __init__(self, db: sqlite3.Connection, indexed: bool = True) -> None:
        """Not `indexed`: another index than the table `words` has the words of passages."""
        self._db = db
        self._indexed = indexed
        self.clear()

    def clear(self) -> None:
        """Nothing is held, nothing is known of the file."""
        self._rows: tuple[list[_Row], ...] = tuple([] for _ in _INSERTS)
        self._held: dict[str, tuple[int, str]] = {}
        self._size = 0
        self._last = (0, 0)  # numbers of a document and a passage; 0: not known

    def find(self, key: str) -> tuple[int, str] | None:
        """The id and text hash of a document that is held under this key of an address."""
        return self._held.get(key)

    def put(self, title: str, url: str, date: str, aliases: Sequence[str], parts: Sequence[str]) -> int:
        """Holds a document in passages, and gives its id."""
        if self._last == (0, 0):
            self._last = self._db.execute(
                "SELECT (SELECT ifnull(max(id), 0) FROM document), (SELECT ifnull(max(id), 0) FROM passage)"
            ).fetchone()
        number, passage = self._last[0] + 1, self._last[1]
        documents, addresses, names, passages, words = self._rows
        digest = hashlib.sha256("".join(parts).encode()).hexdigest()
        keys = [address.key(each) for each in (url, *aliases)]
        documents.append((number, url, address.host(url), title, date, digest))
        addresses.extend((key, number) for key in keys)
        spaced, spaced_address = names_of(title, url)
        names.append((number, spaced, spaced_address))
        for passage, part in enumerate(parts, passage + 1):  # noqa: B020 (the last one is kept)
            passages.append((passage, number, packed(part)))
            if self._indexed:
                words.append((passage, spaced, terms.spaced(part)))
            self._size += len(part)
        for key in keys:
            self._held.setdefault(key, (number, digest))
        self._last = (number, passage)
        if self._size > _MOST:
            self.send()
        return number

    def send(self) -> None:
        """Everything held goes to the file."""
        for sql, rows in zip(_INSERTS, self._rows, strict=True):
            self._db.executemany(sql, rows)
            rows.clear()
        self._held.clear()
        self._size = 0


def packed(text: str) -> bytes:
    """A text as the table `passage` has it."""
    return zlib.compress(text.encode(), _LEVEL)


def unpacked(packed_text: bytes) -> str:
    """Raises zlib.error for what is damaged."""
    return zlib.decompress(packed_text).decode()


def names_of(title: str, url: str) -> tuple[str, str]:
    """What the table `names` has of a document."""
    return terms.spaced(title), terms.spaced(address.words(url))
