"""KEYS AND SIGNALS WHILE A RUN GOES ON: `a` or SIGUSR1 asks for the answer now, the second Ctrl-C quits hard.

In: what asking for the answer does. Out: nothing but that call; the first Ctrl-C is Python's own KeyboardInterrupt.
Keys are read where stdin is a terminal, and only there; it is given back on every way out: the end, an exception,
Ctrl-Z, a signal that ends the process, the hard quit. Where there are no POSIX signals and terminals, nothing is done.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any, Self, TextIO

try:
    import termios
except ImportError:  # Windows
    termios = None  # type: ignore[assignment]  # looked at before it is used

HINT = "a: answer now, Ctrl-C: stop"
ANSWER_KEY = b"a"
_SHOW_CURSOR = b"\x1b[?25h"  # the live view hides it
_ENDS = ("SIGTERM", "SIGHUP", "SIGQUIT")
_POSIX = termios is not None and hasattr(signal, "SIGUSR1")


class Terminal:
    """The terminal in front of a person: `keys` is the descriptor that keys come from, `screen` the one that the view
    is drawn on; None where that is no terminal. Taken, keys come one by one and are not echoed."""

    def __init__(self, keys: int | None, screen: int | None) -> None:
        self.keys = keys
        self._screen = screen
        self._before: list[Any] | None = None

    @classmethod
    def of(cls, stdin: TextIO | None, stderr: TextIO | None) -> Self:
        return cls(_descriptor(stdin), _descriptor(stderr))

    def take(self) -> None:
        """Unless another process has it: in the background, touching it would stop this one. May be done again."""
        if self.keys is None or not self._in_front(self.keys):
            return
        with contextlib.suppress(termios.error, OSError):
            before = self._before or termios.tcgetattr(self.keys)
            mode = termios.tcgetattr(self.keys)
            mode[3] &= ~(termios.ICANON | termios.ECHO)  # Ctrl-C and Ctrl-Z stay signals
            mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self.keys, termios.TCSANOW, mode)
            self._before = before

    def give_back(self) -> None:
        before, self._before = self._before, None
        if before is not None and self.keys is not None and self._in_front(self.keys):
            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(self.keys, termios.TCSANOW, before)
        if self._screen is not None and self._in_front(self._screen):
            with contextlib.suppress(OSError):
                os.write(self._screen, _SHOW_CURSOR)

    @property
    def listening(self) -> int | None:
        """The descriptor to read keys from now, if any."""
        return self.keys if self._before is not None and self.keys is not None and self._in_front(self.keys) else None

    @property
    def is_one(self) -> bool:
        return self.keys is not None or self._screen is not None

    def read(self) -> bytes:
        """The keys that were pressed; of a terminal that is gone none, and it is not listened to any more."""
        try:
            pressed = os.read(self.keys, 64) if self.keys is not None else b""
        except OSError:
            pressed = b""
        if not pressed:
            self.keys = None
        return pressed

    @staticmethod
    def _in_front(descriptor: int) -> bool:
        try:
            return os.tcgetpgrp(descriptor) == os.getpgrp()
        except OSError:  # not this process's terminal, or it is gone
            return False


def _descriptor(stream: TextIO | None) -> int | None:
    try:
        return stream.fileno() if stream is not None and stream.isatty() else None
    except (OSError, ValueError):
        return None


class Watch:
    """Listens while it is entered. `answer` is called, in a thread of its own, for the key and for SIGUSR1.

    Signals are heard through the wakeup descriptor, so that they count also while llama.cpp computes. Entered elsewhere
    than in the main thread it does nothing: there, no signal can be heard.
    """

    def __init__(self, terminal: Terminal | None = None) -> None:
        self.answer: Callable[[], None] = lambda: None
        self._terminal = terminal or Terminal.of(sys.stdin, sys.stderr)
        self._undo = contextlib.ExitStack()
        self._told = -1

    @property
    def hint(self) -> str:
        """What a person may press, "" if nothing is read."""
        return HINT if self._terminal.listening is not None else ""

    def __enter__(self) -> Self:
        if _POSIX and threading.current_thread() is threading.main_thread():
            with contextlib.ExitStack() as undo:
                self._begin(undo)
                self._undo = undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()

    def _begin(self, undo: contextlib.ExitStack) -> None:
        heard, told = os.pipe()
        undo.callback(os.close, heard)
        undo.callback(os.close, told)
        self._told = told
        os.set_blocking(told, False)
        undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(told, warn_on_full_buffer=False))
        thread = threading.Thread(target=self._listen, args=(heard,), daemon=True, name="venus-edge keys")
        for number, handler in self._handlers():
            undo.callback(signal.signal, number, signal.signal(number, handler))
        undo.callback(self._terminal.give_back)
        self._terminal.take()
        thread.start()
        undo.callback(thread.join, 1)
        undo.callback(os.write, told, b"\0")  # the first to be undone: ends the thread

    def _handlers(self) -> Iterator[tuple[signal.Signals, Callable[[int, FrameType | None], None]]]:
        """What is done in the main thread. A signal that somebody has a use for, or that is to be ignored, stays so."""
        wanted = {signal.SIGUSR1: _leave_to_the_thread}
        if self._terminal.is_one:
            wanted |= {signal.SIGTSTP: self._stop, signal.SIGCONT: self._go_on}
            wanted |= {getattr(signal, name): self._end for name in _ENDS}
        for number, handler in wanted.items():
            if signal.getsignal(number) == signal.SIG_DFL:
                yield number, handler

    def _stop(self, number: int, frame: FrameType | None) -> None:
        """Ctrl-Z: the terminal is the shell's meanwhile."""
        self._terminal.give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)  # here the process stands still
        signal.signal(signal.SIGTSTP, self._stop)
        self._go_on(number, frame)

    def _go_on(self, number: int, frame: FrameType | None) -> None:
        self._terminal.take()
        with contextlib.suppress(OSError):
            os.write(self._told, bytes([signal.SIGCONT]))  # the thread looks again whether there is a terminal

    def _end(self, number: int, frame: FrameType | None) -> None:
        self._terminal.give_back()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _listen(self, heard: int) -> None:
        """The thread: keys, and the numbers of the signals that came in; 0 ends it."""
        interrupts = 0
        while True:
            keys = self._terminal.listening
            ready, _, _ = select.select([heard] if keys is None else [heard, keys], [], [])
            numbers = os.read(heard, 64) if heard in ready else b""
            pressed = self._terminal.read() if keys in ready and keys == self._terminal.listening else b""
            if signal.SIGUSR1 in numbers or set(pressed) == set(ANSWER_KEY):  # not the letter in a pasted text
                self.answer()
            interrupts += numbers.count(signal.SIGINT)
            if interrupts > 1:
                self._terminal.give_back()
                os._exit(130)
            if 0 in numbers:
                return


def _leave_to_the_thread(number: int, frame: FrameType | None) -> None:
    """Python only writes a signal's number to the wakeup descriptor if the signal has a handler."""
