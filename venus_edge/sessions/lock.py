"""ONE WRITER A SESSION: an advisory lock on its file, which ends with the process however that ends.

In: an open file. Out: whether it is ours, or somebody's. Where the disk knows no locks, nothing is locked.
"""

from __future__ import annotations

import sys
import time
from io import FileIO
from pathlib import Path
from typing import IO

File = IO[bytes] | FileIO

_TRIES, _PAUSE = 5, 0.05  # a list that looks whether a session is being written holds it for a moment

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 40  # a byte that no session has: what is locked cannot be read there

    def _taken(file: File, shared: bool) -> bool:
        at = file.seek(0, 1)
        try:
            file.seek(_FAR)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
            return True
        finally:
            file.seek(at)
else:
    import fcntl

    def _taken(file: File, shared: bool) -> bool:
        fcntl.flock(file.fileno(), (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
        return True


def take(file: File) -> bool:
    """Locks the file until it is closed; False where another process has it."""
    for _ in range(_TRIES):
        if _take(file, shared=False):
            return True
        time.sleep(_PAUSE)
    return False


def is_taken(path: Path) -> bool:
    """Whether a process writes the session now."""
    try:
        with path.open("rb") as file:
            return not _take(file, shared=True)
    except OSError:
        return False


def _take(file: File, shared: bool) -> bool:
    try:
        return _taken(file, shared)
    except (BlockingIOError, PermissionError):
        return False
    except OSError:  # a file system without locks
        return True
