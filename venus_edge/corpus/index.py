"""QUERY -> RANKED HITS, ADDRESS -> PAGE, from the file of a corpus.

In: any string. Out: `Found`, and `Page | Failure`; nothing that a query or an address holds raises. Threads may share a
`Corpus`. Which passages are the best is `ranking`, what is written where is `store`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING

from venus_edge.corpus import address, snippets, sound, store, tantivy_index, texts
from venus_edge.corpus.query import parse, words_query
from venus_edge.corpus.ranking import Ranking
from venus_edge.values import Failure, Found, Hit, Page, Trouble

# Keys with capitals have an index of their own; all others are their own lower case.
_CASELESS = """
SELECT document FROM address WHERE key = lower(?)
UNION SELECT document FROM address WHERE key <> lower(key) AND key = ? COLLATE NOCASE"""

if TYPE_CHECKING:
    from venus_edge.corpus.dense import Embedder, Nearest

NEAR = 400  # passages that are found by meaning, of as many documents as they are
NEAREST = 5  # pages offered for an unknown address


@dataclass(frozen=True, slots=True)
class Info:
    """What a corpus holds; `vectors` of passages by the embedding model that is called `embedder`, "" for none."""

    documents: int
    passages: int
    vectors: int = 0
    embedder: str = ""

    def embedded(self) -> str:
        """How far the passages have vectors, in words; "" for not at all."""
        far = f"{self.vectors:,} of {self.passages:,} passages embedded by {called(self.embedder)}"
        return far if self.embedder else ""


def called(embedder: str) -> str:
    """An embedding model as it calls itself, without the numbers that tell it from others of that name."""
    return embedder.rsplit(" ", 2)[0]


class Corpus:
    """A corpus opened for reading: a Searcher and an Opener."""

    def __init__(self, path: Path, check: bool = True, embedder: Embedder | None = None) -> None:
        """Raises CorpusError unless `path` is a sound corpus; `check` False leaves the reading of the index out. With
        an `embedder`, passages that have vectors of it (`dense.fill`) are found by meaning, too."""
        if check:
            sound.check(path)
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._lock = Lock()
        self._closed = False
        self._nearest = _nearest_of(embedder) if embedder else None
        with self._reader() as db:
            store.check_version(db, path)
            self._ranking = Ranking(tantivy_index.Words(path) if tantivy_index.folder_of(db, path) else None)

    def __enter__(self) -> Corpus:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        """A connection that no other thread uses meanwhile."""
        with store.translated(self._path):
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            connection = connection or store.connect_to_read(self._path)
            try:
                yield connection
            finally:
                with self._lock:
                    keep = not self._closed
                    if keep:
                        self._idle.append(connection)
                if not keep:
                    connection.close()

    def info(self) -> Info:
        with self._reader() as db:
            counts = db.execute("SELECT (SELECT count(*) FROM document), (SELECT count(*) FROM passage)").fetchone()
            made_by = db.execute("SELECT value FROM meta WHERE name = 'embedder'").fetchone()
            vectors = db.execute("SELECT count(*) FROM vector").fetchone()[0] if made_by else 0
        return Info(counts[0], counts[1], vectors, made_by[0] if made_by else "")

    def embedder(self) -> str:
        """The name of the embedding model of its vectors, "" for none."""
        with self._reader() as db:
            row = db.execute("SELECT value FROM meta WHERE name = 'embedder'").fetchone()
        return str(row[0]) if row else ""

    # -- search

    def search(self, query: str, limit: int = 10, copies: bool = False) -> Found:
        """The best documents for a query, each once, with the best passage's snippet; `copies` of another document only
        where they are asked for."""
        asked = parse(query)
        if asked is None:
            return Found(query, failure=Failure(Trouble.BAD_QUERY, "It has no word to search for."))
        with self._reader() as db:
            near = self._nearest.near(db, asked.text, NEAR) if self._nearest and not asked.exact else ()
            best = self._ranking.best(db, asked, max(limit, 1), near, copies)
            hits = tuple(_hit(db, passage, asked.words) for passage in best)
        return Found(query, hits, None if hits else Failure(Trouble.EMPTY, "No document has any of these words."))

    def search_all(self, queries: Sequence[str], limit: int = 10) -> tuple[Found, ...]:
        """Several queries, in their order."""
        return tuple(self.search(query, limit) for query in queries)

    # -- open

    def open(self, url: str) -> Page | Failure:
        """The page at an address, whichever of its variants is given; else the nearest pages there are."""
        with self._reader() as db:
            document = _document_at(db, url)
            if document is not None:
                return _page(db, document)
            return Failure(Trouble.UNKNOWN, "", tuple(_nearest(db, url)))


def _hit(db: sqlite3.Connection, passage: int, words: Iterable[str]) -> Hit:
    title, url, date, number, parts = db.execute(
        f"SELECT title, url, date, passage.id - first, parts FROM passage JOIN document ON document.id = document"
        f" {texts.JOINED} WHERE passage.id = ?",
        (passage,),
    ).fetchone()
    return Hit(title, url, snippets.snippet(texts.part(parts, number), frozenset(words), title), date)


def _nearest_of(embedder: Embedder) -> Nearest:
    """numpy is loaded for it only."""
    from venus_edge.corpus.dense import Nearest

    return Nearest(embedder)


# -- addresses --------------------------------------------------------------------------------------------------------


def _document_at(db: sqlite3.Connection, url: str) -> int | None:
    """By key; then in any case of letters, if that leaves no choice."""
    for key in address.keys(url):
        row = db.execute("SELECT document FROM address WHERE key = ?", (key,)).fetchone()
        if row:
            return int(row[0])
        rows = db.execute(_CASELESS, (key, key)).fetchmany(2)
        if len(rows) == 1:
            return int(rows[0][0])
    return None


def _page(db: sqlite3.Connection, document: int) -> Page:
    url, title, date, sha256, main = db.execute(
        "SELECT url, title, date, sha256, main FROM document WHERE id = ?", (document,)
    ).fetchone()
    sql = f"SELECT id - first, parts FROM passage {texts.JOINED} WHERE document = ? ORDER BY id"
    text = "".join(texts.part(parts, number) for number, parts in db.execute(sql, (document,)))
    return Page(url, title, text[:main], sha256, date, rest=text[main + len(store.BETWEEN) :])


def _nearest(db: sqlite3.Connection, url: str) -> list[Hit]:
    """Pages whose title or address has words of the unknown address, then pages of its host."""
    expression = words_query(address.words(url))
    found: list[int] = []
    if expression:
        rows = db.execute("SELECT rowid FROM names WHERE names MATCH ? ORDER BY rank LIMIT ?", (expression, NEAREST))
        found += [number for (number,) in rows]
    host = address.host(url)
    if host and not found:
        rows = db.execute("SELECT id FROM document WHERE host = ? ORDER BY id LIMIT ?", (host, NEAREST))
        found += [number for (number,) in rows]
    return [_offer(db, number) for number in found]


def _offer(db: sqlite3.Connection, document: int) -> Hit:
    (first,) = db.execute("SELECT min(id) FROM passage WHERE document = ?", (document,)).fetchone()
    return _hit(db, first, ())
