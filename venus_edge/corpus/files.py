"""THE FILES OF A CORPUS on the disk: the one database, what SQLite and tantivy keep beside it, what a rebuild left.

In: the path of a corpus file. Out: whether it is one of ours, its bytes, its removal. What is in it is `store`.
"""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

from venus_edge.corpus import sound, store, tantivy_index
from venus_edge.errors import CorpusError

_BESIDE = ("-wal", "-shm", sound.SUFFIX)


def check_ours(path: Path) -> None:
    """Raises CorpusError for what is somebody else's: no database, or one of another program. A damaged corpus is ours,
    and so is one that ended before its tables were made."""
    if not is_ours(path):
        raise CorpusError(f"{path} is not a corpus: move it away, or choose another name")


def is_ours(path: Path) -> bool:
    """Whether a file is a corpus, sound or not, or the beginning of one."""
    header = store.header_of(path)
    if not header:
        return True
    if not header.startswith(store.MAGIC):
        return False
    return int.from_bytes(header[68:72], "big") == store.APPLICATION_ID or _is_begun(path)


def _is_begun(path: Path) -> bool:
    """Whether its first page is in the log yet, or nowhere."""
    try:
        with closing(store.connect_to_read(path)) as db:
            is_empty = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
            return bool(is_empty or db.execute("PRAGMA application_id").fetchone()[0] == store.APPLICATION_ID)
    except sqlite3.DatabaseError:
        return False


def size(path: Path) -> int:
    """Bytes of a corpus file, of what is in its log yet, and of the index beside it, if it has one."""
    log = path.with_name(path.name + "-wal")
    return path.stat().st_size + (log.stat().st_size if log.exists() else 0) + tantivy_index.size(path)


def left(path: Path) -> list[Path]:
    """Corpus files that a rebuild left: damaged ones that were kept, and one that was not finished."""
    mine = re.compile(rf"{re.escape(path.name)}\.(?:old-\d+|new)")
    return sorted(each for each in path.parent.iterdir() if mine.fullmatch(each.name) and is_ours(each))


def remove(path: Path) -> int:
    """Removes a corpus with all that belongs to it: how many bytes. Raises CorpusError for what is somebody else's."""
    check_ours(path)
    total = tantivy_index.size(path)
    for file in (*left(path), path):
        for end in (*_BESIDE, ""):
            part = file.with_name(file.name + end)
            if part.is_file():
                total += part.stat().st_size
                part.unlink()
    tantivy_index.tidy(path)
    return total
