"""PASSAGES BY MEANING: their vectors in the file of a corpus, and the nearest to a query's.

In: an `Embedder` (the one of `engine`, given by whoever opens the corpus), a corpus file. Out: passages, nearest first,
by exact dot product. Off unless an embedder is given. Vectors are kept as half floats, 768 bytes a passage for 384
numbers; up to `_KEPT` bytes of them stay in memory as floats, of more a part at a time is read for each query.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Protocol

import numpy as np
import numpy.typing as npt

from venus_edge.corpus import store, texts
from venus_edge.values import Failure, Trouble

_TOGETHER = 32  # passages embedded and written together: what an interruption loses
_ROWS = 4_096  # vectors read together
_KEPT = 256 << 20
_FLOOR = 0.2  # of the cosine: what is further away is about something else, or was not read

_CREATE = """
CREATE TABLE IF NOT EXISTS vector (passage INTEGER PRIMARY KEY, value BLOB NOT NULL);
CREATE TRIGGER IF NOT EXISTS vector_gone AFTER DELETE ON passage BEGIN
  DELETE FROM vector WHERE passage = old.id; END;
"""
_LACKING = f"""
SELECT passage.id, title, passage.id - first, parts FROM passage JOIN document ON document.id = document {texts.JOINED}
WHERE passage.id > ? AND NOT EXISTS (SELECT 1 FROM vector WHERE passage = passage.id) ORDER BY passage.id LIMIT ?
"""
_READ = """
SELECT vector.passage, passage.document, value FROM vector JOIN passage ON passage.id = vector.passage
WHERE vector.passage > ? ORDER BY vector.passage LIMIT ?
"""

_CARRY = """
INSERT OR IGNORE INTO vector SELECT here.id, value FROM document
JOIN address ON address.document = document.id JOIN old.address AS its ON its.key = address.key
JOIN old.document AS was ON was.id = its.document AND was.sha256 = document.sha256 AND was.title = document.title
JOIN passage AS here ON here.document = document.id
JOIN old.passage AS there ON there.document = was.id
AND there.id - (SELECT min(id) FROM old.passage WHERE document = was.id)
  = here.id - (SELECT min(id) FROM passage WHERE document = here.document)
JOIN old.vector ON old.vector.passage = there.id
"""

Floats = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.int64]


class Embedder(Protocol):
    """Texts -> rows of length 1, of zeros for what it cannot read. `name` tells its vectors from those of another
    model."""

    @property
    def name(self) -> str: ...
    def embed(self, texts: Sequence[str]) -> Floats: ...


def fill(path: Path, embedder: Embedder, progress: Callable[[int, int], None] | None = None) -> int:
    """Gives every passage that has none its vector, and says how many. Interrupted, the next call goes on; vectors of
    another model are made again. Raises CorpusError and StorageError as writing does; where nothing is lacking, nothing
    is written."""
    if made_by(path) == embedder.name and not _lack(path):
        return 0
    with store.translated(path):
        db = store.connect(path, "rw")
        try:
            _prepare(db, embedder.name)
            total = db.execute("SELECT (SELECT count(*) FROM passage) - (SELECT count(*) FROM vector)").fetchone()[0]
            last = done = 0
            while rows := db.execute(_LACKING, (last, _TOGETHER)).fetchall():
                vectors = embedder.embed([f"{title}\n{texts.part(parts, n)}".strip() for _, title, n, parts in rows])
                _write(db, [number for number, *_ in rows], vectors)
                last, done = rows[-1][0], done + len(rows)
                if progress:
                    progress(done, total)
            return done
        finally:
            db.close()


def carry(old: Path, new: Path) -> None:
    """Takes over the vectors of an older file for what is the same in a newer one, which has none. Raises CorpusError
    and StorageError."""
    name = made_by(old)
    with store.translated(new), closing(store.connect(new, "rw")) as db:
        _prepare(db, name)
        db.execute("ATTACH ? AS old", (f"{old.absolute().as_uri()}?mode=ro",))
        db.execute(_CARRY)


def made_by(index: Path) -> str:
    """The embedding model whose vectors a corpus file has, "" for none. Raises CorpusError, StorageError."""
    with store.translated(index), closing(store.connect_to_read(index)) as db:
        row = db.execute("SELECT value FROM meta WHERE name = 'embedder'").fetchone()
    return str(row[0]) if row else ""


def _lack(path: Path) -> bool:
    with store.translated(path), closing(store.connect_to_read(path)) as db:
        return db.execute(_LACKING, (0, 1)).fetchone() is not None


def _prepare(db: sqlite3.Connection, name: str) -> None:
    db.executescript(_CREATE)
    if db.execute("SELECT value FROM meta WHERE name = 'embedder'").fetchone() != (name,):
        db.execute("BEGIN IMMEDIATE")
        db.execute("DELETE FROM vector")
        db.execute("INSERT OR REPLACE INTO meta VALUES ('embedder', ?)", (name,))
        db.execute("COMMIT")


def _write(db: sqlite3.Connection, numbers: Sequence[int], vectors: Floats) -> None:
    """Passages that went away meanwhile are left out."""
    db.execute("BEGIN IMMEDIATE")
    db.executemany(
        "INSERT OR REPLACE INTO vector SELECT id, ? FROM passage WHERE id = ?",
        [(row.astype(np.float16).tobytes(), number) for number, row in zip(numbers, vectors, strict=True)],
    )
    db.execute("COMMIT")


class Nearest:
    """The vectors of an open corpus. Threads may share it."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._lock = Lock()  # an embedder serves one at a time
        self._kept: list[tuple[Numbers, Floats]] = []
        self._state: tuple[int, ...] = ()

    def lacks(self, db: sqlite3.Connection) -> Failure | None:
        """Why there is nothing to look in, for the person; None where every passage has its vector."""
        has = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'vector'").fetchone()[0]
        name = db.execute("SELECT value FROM meta WHERE name = 'embedder'").fetchone()
        if not has or name != (self._embedder.name,):
            return Failure(Trouble.EMPTY, "this corpus has no vectors of that embedding model")
        return None

    def near(self, db: sqlite3.Connection, text: str, limit: int) -> list[tuple[int, int]]:
        """(document, passage), the nearest first."""
        with self._lock:
            if self.lacks(db):
                return []
            asked = self._embedder.embed([text])[0]
            if not asked.any():
                return []
            found = [_nearest(numbers, vectors @ asked, limit) for numbers, vectors in self._parts(db)]
        best = sorted((row for part in found for row in part), key=lambda row: (-row[0], row[2]))[:limit]
        return [(document, passage) for score, document, passage in best if score >= _FLOOR]

    def _parts(self, db: sqlite3.Connection) -> Iterator[tuple[Numbers, Floats]]:
        state = (id(db), db.execute("PRAGMA data_version").fetchone()[0])  # what others have written shows in it
        if self._state == state:
            yield from self._kept
            return
        self._kept, self._state = [], ()
        size = 0
        for part in _read(db):
            size += part[1].nbytes
            if size <= _KEPT:
                self._kept.append(part)
            yield part
        if size <= _KEPT:
            self._state = state
        else:
            self._kept = []


def _nearest(numbers: Numbers, scores: Floats, limit: int) -> list[tuple[float, int, int]]:
    """(score, document, passage) of the best of a part."""
    count = min(limit, len(scores))
    scores = np.round(scores, 6)  # the last bits differ by how many rows are multiplied together
    best = np.argpartition(-scores, count - 1)[:count]
    return [(float(scores[n]), int(numbers[n, 1]), int(numbers[n, 0])) for n in best]


def _read(db: sqlite3.Connection) -> Iterator[tuple[Numbers, Floats]]:
    """(passage, document) and vectors, a part at a time."""
    last = 0
    while rows := db.execute(_READ, (last, _ROWS)).fetchall():
        last = rows[-1][0]
        values = np.frombuffer(b"".join(value for _, _, value in rows), dtype=np.float16)
        numbers = np.array([(passage, document) for passage, document, _ in rows], dtype=np.int64)
        yield numbers, values.reshape(len(rows), -1).astype(np.float32)
