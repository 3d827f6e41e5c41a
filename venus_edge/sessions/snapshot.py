"""WHEN THE MODEL'S CACHE IS KEPT BESIDE THE SESSION, so that a resumed run need not read it all again.

In: the ends of turns. Out: a file beside the session, now and then: writing it never takes more than a twentieth of the
run's time, nor a quarter of the free disk. It is removed when the run is over. What is in it is the engine's affair.
"""

from __future__ import annotations

import glob
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol, runtime_checkable

from venus_edge.errors import StorageError
from venus_edge.sessions import SNAPSHOT

LEAST_SECONDS = 60.0  # between two
SHARE = 20  # of the run's time: one part is for writing
MOST = 8 << 30  # bytes
DISK = 4  # of the free disk: one part


@runtime_checkable
class Keeps(Protocol):
    """An engine that can put its conversation on a disk and take it back."""

    def save(self, path: Path, most: int = ...) -> int: ...
    def restore(self, path: Path) -> int: ...


class Snapshots:
    """The snapshot of one session. With an engine that keeps none, nothing is done."""

    def __init__(
        self,
        engine: object,
        session: Path,
        clock: Callable[[], float] = time.monotonic,
        least: float = LEAST_SECONDS,
    ) -> None:
        self.path = session.with_suffix(SNAPSHOT)
        self._engine = engine if isinstance(engine, Keeps) else None
        self._clock = clock
        self._least = least
        self._next = clock() + least

    def turn_ended(self) -> None:
        """Keeps the cache if it is time. A disk that does not take it is asked again much later; the run goes on."""
        began = self._clock()
        if self._engine is None or began < self._next:
            return
        try:
            self._engine.save(self.path, min(MOST, shutil.disk_usage(self.path.parent).free // DISK))
        except (StorageError, OSError):
            began -= self._least
        took = self._clock() - began
        self._next = self._clock() + max(self._least, SHARE * took)

    def restore(self) -> int:
        """The tokens that came back: 0 if there is no snapshot, or one of something else."""
        return self._engine.restore(self.path) if self._engine is not None else 0

    def remove(self) -> None:
        """The run is over: nobody goes on from here."""
        with suppress(OSError):
            remove(self.path)


def remove(session: Path) -> None:
    """Deletes the snapshot of a session, and what a kill left of one."""
    path = session.with_suffix(SNAPSHOT)
    for left in (path, *path.parent.glob(f"{glob.escape(path.name)}.*.part")):
        left.unlink(missing_ok=True)
