"""ONE WRITER A CORPUS: a lock that ends with its process, however that ends, and a note of who holds it.

In: the path of a corpus file. Out: the right to write it, or a CorpusError that says who does. Reading asks nobody.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import IO

from venus_edge.errors import CorpusError, StorageError

if sys.platform == "win32":
    import msvcrt

    _FAR = 1 << 40  # a byte that the note does not have: what is locked cannot be read there

    def _take(file: IO[str]) -> None:
        file.seek(_FAR)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        file.seek(0)
else:
    import fcntl

    def _take(file: IO[str]) -> None:
        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


class BeingWrittenError(CorpusError):
    """Another process writes the corpus."""


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Holds the corpus for this process alone. Raises BeingWrittenError with the other's number and since when."""
    beside = path.with_name(path.name + ".writing")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = _locked(beside)
    except OSError as error:
        raise StorageError(f"{beside}: {error.strerror}; set VENUS_DATA_DIR to a directory of yours") from error
    if file is None:
        raise BeingWrittenError(f"{path.name} is being written by {_who(beside)}; wait for it, or search it meanwhile")
    with file:
        file.truncate(0)
        file.write(f"process {os.getpid()} since {datetime.now():%H:%M:%S}")
        file.flush()
        try:
            yield
        finally:
            with suppress(OSError):
                beside.unlink()


def _locked(beside: Path) -> IO[str] | None:
    """The file, locked; None where somebody has it. One that was removed between opening and locking is no lock."""
    while True:
        file = beside.open("a+", encoding="utf-8")
        try:
            _take(file)
        except (BlockingIOError, PermissionError):
            file.close()
            return None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file.fileno()), beside.stat()):
                return file
        file.close()


def _who(beside: Path) -> str:
    try:
        return beside.read_text(encoding="utf-8").strip() or "another process"
    except OSError:
        return "another process"
