"""AN INDEX -> A COPY OF IT in one file, whole whatever is written meanwhile."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from venus_edge.errors import CorpusError


def copy(index: Path, target: Path) -> None:
    """Copies an index as it is now. Raises CorpusError."""
    try:
        with (
            closing(sqlite3.connect(f"file:{quote(str(index.resolve()))}?mode=ro", uri=True)) as source,
            closing(sqlite3.connect(target)) as out,
        ):
            source.backup(out, pages=4_096)
            out.execute("PRAGMA journal_mode = DELETE")  # no file beside it that could be left behind
    except sqlite3.Error as error:
        raise CorpusError(
            f"{index} cannot be copied: {error}; venus-edge corpus search shows whether it is one"
        ) from error
