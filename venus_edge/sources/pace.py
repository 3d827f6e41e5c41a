"""TURNS: at most so many requests at once, and a pause between two to the same host. Threads share one.

In: a host and a deadline. Out: leave to go, or TimeoutError if the turn would come after the deadline.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pace:
    """`pause` is the least time between two starts at one host, in seconds; `at_once` counts all hosts."""

    def __init__(
        self,
        pause: float = 0.0,
        at_once: int = 8,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._pause, self._clock, self._sleep = pause, clock, sleep
        self._free = threading.BoundedSemaphore(at_once)
        self._next: dict[str, float] = {}
        self._lock = threading.Lock()

    @contextmanager
    def turn(self, host: str, deadline: float, pause: float | None = None) -> Iterator[None]:
        """Waits for the turn of `host` and holds it. `pause` stands in for the usual one. Raises TimeoutError."""
        if not self._free.acquire(timeout=max(0.0, deadline - self._clock())):
            raise TimeoutError("too many requests at once")
        try:
            wait = self._reserved(host, deadline, self._pause if pause is None else pause)
            if wait > 0:
                self._sleep(wait)
            yield
        finally:
            self._free.release()

    def _reserved(self, host: str, deadline: float, pause: float) -> float:
        """The seconds to wait for a start that nobody else has taken."""
        with self._lock:
            now = self._clock()
            start = max(now, self._next.get(host, now))
            if start > deadline:
                raise TimeoutError(f"the turn at {host} would come too late")
            self._next[host] = start + pause
            return start - now
