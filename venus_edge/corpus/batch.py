"""WHAT A BATCH HOLDS UNTIL IT IS WRITTEN: rows of documents, sent to SQLite many at a time.

In: documents with their numbers. Out: the rows of `store`'s tables. What is still held is found by `find`; nothing here
begins or ends a transaction. Sent one by one, rows cost a sixth more.
"""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Sequence

from venus_edge import terms
from venus_edge.corpus import address, texts

_MOST = 4_000_000  # characters that are held

_INSERTS = (
    "INSERT INTO document (id, url, host, title, date, sha256, main) VALUES (?, ?, ?, ?, ?, ?, ?)",
    "INSERT OR IGNORE INTO address (key, document) VALUES (?, ?)",
    "INSERT INTO names (rowid, title, address) VALUES (?, ?, ?)",
    "INSERT INTO passage (id, document, beside) VALUES (?, ?, ?)",
    "INSERT INTO text (first, parts) VALUES (?, ?)",
    "INSERT INTO words (rowid, title, body, heading, beside) VALUES (?, ?, ?, ?, ?)",
)
_PASSAGES = f"""
SELECT passage.id, title, beside, first, parts FROM passage JOIN document ON document.id = document {texts.JOINED}
WHERE passage.id > ? ORDER BY passage.id LIMIT 1000"""
_HEADING = re.compile(r"^#{1,6}[ \t]+(.+)$", re.MULTILINE)
_TEXTS = 4  # of these
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
        self._group: list[str] = []  # texts of the last passages, which will be a row together
        self._group_size = 0
        self._last = (0, 0)  # numbers of a document and a passage; 0: not known

    def find(self, key: str) -> tuple[int, str] | None:
        """The id and text hash of a document that is held under this key of an address."""
        return self._held.get(key)

    def put(
        self, title: str, url: str, date: str, aliases: Sequence[str], main: Sequence[str], beside: Sequence[str]
    ) -> int:
        """Holds a document in passages of its main text and of what stands beside that, and gives its id."""
        if self._last == (0, 0):
            self._last = self._db.execute(
                "SELECT (SELECT ifnull(max(id), 0) FROM document), (SELECT ifnull(max(id), 0) FROM passage)"
            ).fetchone()
        number, passage = self._last[0] + 1, self._last[1]
        documents, addresses, names, passages, _, words = self._rows
        digest = hashlib.sha256("".join((*main, *beside)).encode()).hexdigest()
        keys = [address.key(each) for each in (url, *aliases)]
        documents.append((number, url, address.host(url), title, date, digest, sum(map(len, main))))
        addresses.extend((key, number) for key in keys)
        spaced, spaced_address = names_of(title, url)
        names.append((number, spaced, spaced_address))
        last = passage + len(main)
        for passage, part in enumerate((*main, *beside), passage + 1):  # noqa: B020 (the last one is kept)
            passages.append((passage, number, passage > last))
            self._hold(passage, part)
            if self._indexed:
                words.append((passage, *words_of(spaced, part, passage > last)))
            self._size += len(part)
        for key in keys:
            self._held.setdefault(key, (number, digest))
        self._last = (number, passage)
        if self._size > _MOST:
            self.send()
        return number

    def _hold(self, passage: int, part: str) -> None:
        self._group.append(part)
        self._group_size += len(part)
        if self._group_size >= texts.GROUP:
            self._end_group(passage)

    def _end_group(self, passage: int) -> None:
        """Makes a row of the texts up to this passage."""
        if self._group:
            self._rows[_TEXTS].append((passage - len(self._group) + 1, texts.packed(self._group)))
        self._group, self._group_size = [], 0

    def send(self) -> None:
        """Everything held goes to the file."""
        self._end_group(self._last[1])
        for sql, rows in zip(_INSERTS, self._rows, strict=True):
            self._db.executemany(sql, rows)
            rows.clear()
        self._held.clear()
        self._size = 0


def words_of(title: str, part: str, beside: bool) -> tuple[str, str, str, str]:
    """What the table `words` has of a passage under a title that is spaced already: `beside` the main text it counts
    less, and headings count once more."""
    if beside:
        return title, "", "", terms.spaced(part)
    headings = terms.spaced("\n".join(_HEADING.findall(part))) if "#" in part else ""
    return title, terms.spaced(part), headings, ""


def index_words(db: sqlite3.Connection) -> None:
    """Fills the table `words`, which is empty, from the texts of all passages. In a transaction."""
    last = 0
    while rows := db.execute(_PASSAGES, (last,)).fetchall():
        found = [
            (passage, *words_of(terms.spaced(title), texts.part(parts, passage - first), beside))
            for passage, title, beside, first, parts in rows
        ]
        db.executemany(_INSERTS[-1], found)
        last = rows[-1][0]


def names_of(title: str, url: str) -> tuple[str, str]:
    """What the table `names` has of a document."""
    return terms.spaced(title), terms.spaced(address.words(url))
