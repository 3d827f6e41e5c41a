"""CTRL-C AND CANCEL, so that llama.cpp is never left in the middle of something.

While work is `held`, SIGINT sets a flag that the work looks at; afterwards the signal goes to the handler that was
there before. Python runs signal handlers in the main thread only, so elsewhere only `cancel` counts.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupts:
    """`wanted` says that the work should stop. `cancel` may be called from any thread or signal handler."""

    def __init__(self) -> None:
        self.cancelled = False
        self._signalled = False

    @property
    def wanted(self) -> bool:
        return self.cancelled or self._signalled

    def cancel(self) -> None:
        self.cancelled = True

    def clear(self) -> None:
        self.cancelled = self._signalled = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """SIGINT waits until the block is left, then does what it would have done: as a rule, KeyboardInterrupt."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.getsignal(signal.SIGINT)
        if before is None or before == signal.SIG_IGN:  # not Python's own, or meant to be ignored
            yield
            return
        signal.signal(signal.SIGINT, self._note)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)
            if self._signalled:
                self._signalled = False
                self.cancelled = True  # should the handler return, the generation still ends
                _deliver(before)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._signalled = True


def _deliver(handler: object) -> None:
    if callable(handler):
        handler(signal.SIGINT, None)
    else:
        os.kill(os.getpid(), signal.SIGINT)
