"""WORK -> ITS RESULT, OR TimeoutError WHEN THE TIME IS UP, whatever the work does. Deadlines are of time.monotonic."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def within(deadline: float, work: Callable[[], T]) -> T:
    """What `work()` returns or raises, if that happens before `deadline`.

    The work runs in a daemon thread: one that hangs is left behind, and the process can still exit.
    """
    outcome: queue.SimpleQueue[tuple[T | None, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            outcome.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            outcome.put((None, error))

    threading.Thread(target=run, daemon=True, name="venus-edge-deadline").start()
    try:
        result, error = outcome.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        raise TimeoutError("the time is up") from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # None only where T is None
