"""THE SESSION'S FILE -> RECORDS AND EVENTS. A torn last line is dropped, nothing else: any other wrong one is named.

In: a path. Out: the lines as JSON gives them (`read`), or the events with their times (`load`). Raises StorageError of
one line; nothing here changes a file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from venus_edge.errors import StorageError
from venus_edge.events import Event, Finished, Ledger, RunStarted, Traffic
from venus_edge.sessions import SCHEMA, UNFINISHED
from venus_edge.sessions.decode import Unreadable, event_of

Record = dict[str, Any]


def read(path: Path) -> Iterator[Record]:
    """The records of a session file, the header first. A torn last line is dropped; any other is a StorageError."""
    for _, record in _numbered(path):
        yield record


def _numbered(path: Path) -> Iterator[tuple[int, Record]]:
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise StorageError(f"session {path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        record = _record(line)
        if record is None and number == len(lines):
            return
        if record is None:
            raise StorageError(f"session {path}, line {number}, is no record: it is not JSON; mend or delete the line")
        _check_schema(path, record)
        yield number, record


def _record(line: bytes) -> Record | None:
    try:
        record = json.loads(line.decode("utf-8", "surrogateescape"))
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def _check_schema(path: Path, record: Record) -> None:
    schema = record.get("schema") if "venus_edge" in record else None
    if isinstance(schema, int) and schema > SCHEMA:
        raise StorageError(
            f"session {path.stem} is of a newer version (venus-edge {record['venus_edge']}, schema {schema}; this one "
            f"reads {SCHEMA}): pip install -U venus-edge"
        )


# -- events -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Session:
    """A session read whole: its events, and for each the line it stands on and the seconds the run had taken."""

    path: Path
    created: str
    events: tuple[Event, ...]
    lines: tuple[int, ...]
    times: tuple[float, ...]

    @cached_property
    def started(self) -> RunStarted:
        """Raises StorageError where the run never began."""
        first = next((event for event in self.events if isinstance(event, RunStarted)), None)
        if first is None:
            raise StorageError(f"session {self.path.stem} ends before its run began: ask the question again")
        return first

    @property
    def ending(self) -> str:
        """The termination, "" if the last that was written is no end."""
        last = self.events[-1] if self.events else None
        return last.result.termination if isinstance(last, Finished) else ""

    @property
    def can_go_on(self) -> bool:
        return self.ending in UNFINISHED

    @property
    def seconds(self) -> float:
        """What the run has taken so far."""
        return max(self.times, default=0.0)

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """What has left the machine so far."""
        return next((event.hosts for event in reversed(self.events) if isinstance(event, Ledger)), ())


def load(path: Path) -> Session:
    """The session's events. Raises StorageError for a record that is no event of this version."""
    created, found = "", list[tuple[Event, int, float]]()
    for number, record in _numbered(path):
        if "venus_edge" in record:
            created = created or str(record.get("created", ""))
            if record.get("schema") != SCHEMA:
                raise StorageError(
                    f"session {path.stem} is of an older version (schema {record.get('schema')}): it can be listed, "
                    "shown and exported, not resumed or replayed"
                )
            continue
        try:
            found.append((event_of(record), number, float(record.get("at", 0.0))))
        except (Unreadable, TypeError, ValueError) as error:
            raise StorageError(f"session {path}, line {number}, is no record: {error}; mend the line") from error
    if not created:
        raise StorageError(f"session {path}, line 1, is not a session's head: was it deleted?")
    events, lines, times = zip(*found, strict=True) if found else ((), (), ())
    return Session(path, created, events, lines, times)


# -- the end of a file ------------------------------------------------------------------------------------------------


def last_lines(file: IO[bytes], count: int) -> list[bytes]:
    """The last lines that are not empty, at most so many, in their order; read backwards in blocks."""
    end, tail = file.seek(0, os.SEEK_END), b""
    while end > 0 and tail.strip().count(b"\n") < count:
        start = max(0, end - 65_536)
        file.seek(start)
        tail, end = file.read(end - start) + tail, start
    return tail.strip().split(b"\n")[-count:]


def whole_end(path: Path) -> tuple[int, bool]:
    """Where the last whole line of a file ends, and whether a line break is missing there."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        last = last_lines(file, 1)[0]
        file.seek(max(0, size - 1))
        if size == 0 or file.read() == b"\n":
            return size, False
        if _record(last) is not None:
            return size, True
        return _begin_of_last(file, size), False


def _begin_of_last(file: IO[bytes], end: int) -> int:
    """Where the line begins that a file of `end` bytes ends in."""
    while end > 0:
        start = max(0, end - 65_536)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def last_seconds(path: Path) -> float:
    """The seconds that the run had taken when its last whole line was written."""
    with path.open("rb") as file:
        records = (_record(line) or {} for line in reversed(last_lines(file, 4)))
        times = (record["at"] for record in records if isinstance(record.get("at"), int | float))
        return float(next(times, 0.0))


def writer(path: Path) -> str:
    """Who wrote the file last, for a person: process and machine."""
    try:
        heads = [line for line in path.read_bytes().split(b"\n") if line.startswith(b'{"venus_edge"')]
    except OSError:
        heads = []
    head = (_record(heads[-1]) or {}) if heads else {}
    return f"process {head['pid']} on {head.get('host') or 'this machine'}" if "pid" in head else "another process"
