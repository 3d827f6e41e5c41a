"""AN INDEX MADE AGAIN FROM THE TEXTS that a corpus file has itself, where its sources are not there to be read again.

In: the file of a corpus whose index is damaged, or was made by another reading of words. Out: a new file with the same
documents and notes, its words indexed anew. The old file is only read.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from venus_edge import terms
from venus_edge.corpus import store, tantivy_index
from venus_edge.corpus.batch import index_words, names_of

_ROWS = 1_000  # read together
_DOCUMENTS = "SELECT id, title, url FROM document WHERE id > ? ORDER BY id LIMIT ?"


def index_again(path: Path, into: Path) -> None:
    """Writes the new file. Raises CorpusError where the texts are damaged too or of another layout, StorageError."""
    into.unlink(missing_ok=True)
    with store.translated(path), closing(store.connect_to_read(path)) as old:
        if old.execute("PRAGMA user_version").fetchone()[0] != store.SCHEMA:
            raise store.damaged(path)
        old.execute("VACUUM INTO ?", (str(into),))
    with store.translated(path), closing(store.connect(into, "rw")) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("BEGIN IMMEDIATE")
        in_fts5 = tantivy_index.folder_of(db, into) is None
        for table in ("words", "names"):
            db.execute(f"INSERT INTO {table} ({table}) VALUES ('delete-all')")
        if in_fts5:
            index_words(db)
        last = 0
        while rows := db.execute(_DOCUMENTS, (last, _ROWS)).fetchall():
            names = [(number, *names_of(title, url)) for number, title, url in rows]
            db.executemany("INSERT INTO names (rowid, title, address) VALUES (?, ?, ?)", names)
            last = rows[-1][0]
        db.execute("UPDATE meta SET value = ? WHERE name = 'terms'", (str(terms.VERSION),))
        db.execute("COMMIT")
