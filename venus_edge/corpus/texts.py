"""THE TEXTS OF PASSAGES, compressed some together: half the time and a tenth less space than one by one.

In: texts of passages with consecutive numbers. Out: rows of the table `text`, each with the number of its first
passage, and out of such a row the text of one passage. What a passage is, is not known here.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Sequence
from functools import lru_cache

GROUP = 18_000  # characters, from which on a row is full
_LEVEL = 1  # of zlib: within 2% of level 6 in size for passages, and a sixth faster

JOINED = "JOIN text ON text.first = (SELECT max(first) FROM text WHERE first <= passage.id)"


def packed(parts: Sequence[str]) -> bytes:
    """A row: the lengths of its texts, and the texts."""
    lengths = ",".join(str(len(part)) for part in parts)
    return zlib.compress(f"{lengths}\n{''.join(parts)}".encode(), _LEVEL)


def part(row: bytes, number: int) -> str:
    """The text that is so many behind the first of a row. Raises zlib.error for what is damaged."""
    parts = _parts(row)
    if number >= len(parts):
        raise zlib.error("a row of texts is gone")
    return parts[number]


@lru_cache(maxsize=8)  # neighbours are read one after the other
def _parts(row: bytes) -> tuple[str, ...]:
    try:
        lengths, _, texts = zlib.decompress(row).decode().partition("\n")
        found, start = [], 0
        for length in map(int, lengths.split(",")):
            found.append(texts[start : start + length])
            start += length
    except ValueError as error:
        raise zlib.error(str(error)) from error
    return tuple(found)


def drop(db: sqlite3.Connection, passages: Sequence[int]) -> None:
    """Takes the texts of passages that are gone out of their rows."""
    rows: dict[int, set[int]] = {}
    for passage in passages:
        (first,) = db.execute("SELECT max(first) FROM text WHERE first <= ?", (passage,)).fetchone()
        rows.setdefault(first, set()).add(passage - first)
    for first, gone in rows.items():
        (row,) = db.execute("SELECT parts FROM text WHERE first = ?", (first,)).fetchone()
        parts = ["" if number in gone else text for number, text in enumerate(_parts(row))]
        if any(parts):
            db.execute("UPDATE text SET parts = ? WHERE first = ?", (packed(parts), first))
        else:
            db.execute("DELETE FROM text WHERE first = ?", (first,))
