"""A LARGE CORPUS THAT WAS FOUND SOUND is not read whole again while its file stays as it is.

In: a corpus file. Out: nothing, or the CorpusError of `store.check`. To read the index of a million passages takes ten
seconds, too long before every search: what was read is known by a mark beside the file, its size and time. Damage that
leaves both as they are is found by `corpus check`, which reads all of it whatever the mark says.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from venus_edge.corpus import store

LARGE = 64_000_000  # bytes; a smaller one is read in half a second
SUFFIX = "-sound"


def check(path: Path, large: int = LARGE) -> None:
    """Raises CorpusError and StorageError as `store.check` does."""
    seen = _state(path)
    if not seen or _size(path) < large or seen != _mark(path):
        store.check(path)
        if seen and seen == _state(path) and _size(path) >= large:
            with suppress(OSError):  # a disk that takes no more: it is read again next time
                path.with_name(path.name + SUFFIX).write_text(seen)


def _state(path: Path) -> str:
    """What changes with every write; "" while there is more in the log than in the file, and for none."""
    try:
        stat, log = path.stat(), path.with_name(path.name + "-wal")
        return "" if log.exists() and log.stat().st_size else f"{stat.st_size} {stat.st_mtime_ns} {stat.st_ino}"
    except OSError:
        return ""


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _mark(path: Path) -> str:
    try:
        return path.with_name(path.name + SUFFIX).read_text()
    except (OSError, UnicodeDecodeError):
        return ""
