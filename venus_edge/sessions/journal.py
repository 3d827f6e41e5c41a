"""EVENTS -> THE SESSION'S FILE: `<data>/sessions/<time>-<words>.jsonl`, whose first line says the schema's version.

In: the events of a run. Out: a line each, written whole or not at all. The file is synced at the end of each turn, so
that a power cut costs at most the turn in hand. `at` of a line is the seconds that the run has taken, by a clock that
nobody sets: time between a stop and the resume does not count.
"""

from __future__ import annotations

import json
import os
import platform
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime
from enum import Enum
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from venus_edge import __version__
from venus_edge.errors import StorageError
from venus_edge.events import (
    AttemptDropped,
    Event,
    Failed,
    Finished,
    Folded,
    LimitReached,
    Replied,
    Resumed,
    RunStarted,
    Streamed,
    ToolReturned,
)
from venus_edge.sessions import SCHEMA, SUFFIX, lock
from venus_edge.sessions.reading import last_seconds, whole_end, writer

_SYNCED = (RunStarted, Resumed, Replied, ToolReturned, AttemptDropped, Folded, LimitReached, Failed, Finished)

Clock = Callable[[], float]


def check_writable(directory: Path) -> None:
    """Raises StorageError unless sessions can be kept in the directory: said before a model is loaded for nothing."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        writable = os.access(directory, os.W_OK)
    except OSError as error:
        raise _unwritable(directory, error.strerror) from error
    if not writable:
        raise _unwritable(directory, "it cannot be written")


def _unwritable(directory: Path, why: str | None) -> StorageError:
    return StorageError(f"no session can be kept in {directory}: {why}; set VENUS_DATA_DIR to a directory of yours")


class Journal:
    """The session file of one run, open for appending and locked. A context manager."""

    def __init__(self, path: Path, file: FileIO, head: dict[str, Any], spent: float, clock: Clock) -> None:
        """`head` is the line that says who writes from here on, not written yet; `spent` are the seconds that the run
        has taken before."""
        self.path = path
        self.spent = spent
        self._file = file
        self._head: dict[str, Any] | None = head
        self._clock = clock
        self._began = clock()

    @classmethod
    def create(cls, directory: Path, question: str, now: datetime, clock: Clock = time.monotonic) -> Journal:
        """A new file that no other run has. Raises StorageError if the directory cannot be written."""
        stem = f"{now:%Y%m%d-%H%M%S}-{slug(question)}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            path, file = _open_new(directory, stem)
        except OSError as error:
            raise _unwritable(directory, error.strerror) from error
        lock.take(file)
        journal = cls(path, file, _head("created", now), 0.0, clock)
        try:
            journal._begin()
        except OSError as error:
            file.close()
            path.unlink(missing_ok=True)
            raise _unwritable(directory, error.strerror) from error
        return journal

    @classmethod
    def reopen(cls, path: Path, now: datetime, clock: Clock = time.monotonic) -> Journal:
        """An earlier session's file, to go on behind its last whole line. Raises StorageError if it cannot be written,
        or another process writes it."""
        try:
            file = FileIO(path, "r+")
        except OSError as error:
            raise StorageError(f"session {path} cannot be written: {error.strerror}") from error
        if not lock.take(file):
            file.close()
            raise StorageError(f"session {path.stem} is being written by {writer(path)}; wait, or stop that one first")
        return cls(path, file, _head("reopened", now), last_seconds(path), clock)

    def write(self, event: Event) -> None:
        """Appends the event (what only streams by is left out). Raises StorageError on a full disk."""
        if isinstance(event, Streamed):
            return
        try:
            if self._head is not None:
                self._begin()
            at = round(self.spent + self._clock() - self._began, 3)
            self._append({"event": type(event).__name__, "at": at, **_plain(asdict(event))})
            if isinstance(event, _SYNCED):
                os.fsync(self._file.fileno())
        except OSError as error:
            raise StorageError(
                f"the session cannot be written: {error.strerror} ({self.path.parent}); "
                f"when that is mended: venus-edge sessions resume {self.path.stem}"
            ) from error

    def _begin(self) -> None:
        """What a kill left of a line goes, and the head is written."""
        self._began = self._clock()
        end, needs_break = whole_end(self.path)
        self._file.truncate(end)
        self._file.seek(end)
        if needs_break:
            self._put(b"\n")
        self._append(self._head or {})
        self._head = None

    def _append(self, record: dict[str, Any]) -> None:
        self._put(f"{json.dumps(record, ensure_ascii=False)}\n".encode("utf-8", "backslashreplace"))

    def _put(self, data: bytes) -> None:
        """All of it or, on a disk that is full and where Ctrl-C falls into it, nothing."""
        before, left = self._file.tell(), memoryview(data)
        try:
            while left:
                left = left[self._file.write(left) or 0 :]
        except BaseException:
            with suppress(OSError):
                self._file.truncate(before)
                self._file.seek(before)
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def slug(question: str, width: int = 40) -> str:
    """A question as part of a file name: its words, any script, joined by dashes; `question` if it has none."""
    words = re.findall(r"\w+", question.lower())
    return "-".join(words)[:width].rstrip("-") or "question"


def _head(what: str, now: datetime) -> dict[str, Any]:
    return {
        "venus_edge": __version__,
        "schema": SCHEMA,
        what: now.isoformat(timespec="seconds"),
        "pid": os.getpid(),
        "host": platform.node(),
    }


def _open_new(directory: Path, stem: str) -> tuple[Path, FileIO]:
    for number in range(1, 1000):
        path = directory / f"{stem}{f'-{number}' if number > 1 else ''}{SUFFIX}"
        try:
            file = FileIO(path, "x")
        except FileExistsError:
            continue
        _sync_directory(directory)
        return path, file
    raise StorageError(f"there are a thousand sessions named {stem} in {directory}")


def _sync_directory(directory: Path) -> None:
    """The file's name on the disk too; not every system can."""
    with suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _plain(value: Any) -> Any:
    """Enums by name, whatever dataclasses.asdict left."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.name.lower() if isinstance(value, Enum) else value
