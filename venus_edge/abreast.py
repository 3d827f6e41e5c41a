"""WORK FOR SEVERAL ITEMS AT ONCE -> the results in their order, whatever hangs. Deadlines are of time.monotonic.

The work runs in daemon threads: what hangs is left behind at the deadline, at Ctrl-C and at the end of the process.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

In = TypeVar("In")
Out = TypeVar("Out")


def abreast(work: Callable[[In], Out], items: Sequence[In], deadline: float | None = None) -> list[Out | None]:
    """What `work` returns for every item, None for one that is not done at the deadline. Raises what `work` raises."""
    done: queue.SimpleQueue[tuple[int, Out | None, BaseException | None]] = queue.SimpleQueue()

    def run(number: int, item: In) -> None:
        try:
            done.put((number, work(item), None))
        except BaseException as error:  # noqa: BLE001 - carried over to the caller's thread
            done.put((number, None, error))

    for pair in enumerate(items):
        threading.Thread(target=run, args=pair, daemon=True, name="venus-edge-abreast").start()
    results: list[Out | None] = [None] * len(items)
    for _ in items:
        try:
            number, result, error = done.get(timeout=_left(deadline))
        except queue.Empty:
            break
        if error is not None:
            raise error
        results[number] = result
    return results


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())
