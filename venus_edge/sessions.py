"""Events <-> journal: one append-only file a session, JSON lines, one event a line.

In: the events of a run. Out: `<data>/sessions/<time>-<words>.jsonl`, whose first line says the schema's version.
A line is written whole; the file is flushed at each line and synced at the end of each turn, so that a power cut costs
at most the turn in hand. A torn last line is dropped on reading, nothing else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from venus_edge import __version__
from venus_edge.errors import StorageError
from venus_edge.events import AttemptDropped, Event, Failed, Finished, Replied, Streamed, ToolReturned

SCHEMA = 1
_TURN_ENDS = (Replied, ToolReturned, AttemptDropped, Failed, Finished)


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
    """The session file of one run, open for appending. A context manager."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        self.path = path
        self._file = file

    @classmethod
    def create(cls, directory: Path, question: str, now: datetime) -> Journal:
        """A new file that no other run has. Raises StorageError if the directory cannot be written."""
        stem = f"{now:%Y%m%d-%H%M%S}-{slug(question)}"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            path, file = _open_new(directory, stem)
        except OSError as error:
            raise _unwritable(directory, error.strerror) from error
        journal = cls(path, file)
        journal._append({"venus_edge": __version__, "schema": SCHEMA, "created": now.isoformat(timespec="seconds")})
        return journal

    def write(self, event: Event) -> None:
        """Appends the event (what only streams by is left out). Raises StorageError on a full disk."""
        if isinstance(event, Streamed):
            return
        self._append({"event": type(event).__name__, **_plain(asdict(event))}, sync=isinstance(event, _TURN_ENDS))

    def _append(self, record: dict[str, Any], sync: bool = True) -> None:
        try:
            self._file.write(json.dumps(record, ensure_ascii=False) + "\n")
            self._file.flush()
            if sync:
                os.fsync(self._file.fileno())
        except OSError as error:
            raise StorageError(f"the session cannot be written to {self.path}: {error.strerror}") from error

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a session file, the header first. A torn last line is dropped; any other is a StorageError."""
    try:
        lines = path.read_text(encoding="utf-8", errors="surrogateescape").split("\n")
    except OSError as error:
        raise StorageError(f"session {path} cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines):
                return
            raise StorageError(f"session {path}, line {number}, is not JSON: {error.msg}") from error


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of the list of sessions. `state` is the termination, or `unfinished`."""

    path: Path
    created: str
    question: str
    model: str
    state: str

    def as_dict(self) -> dict[str, str]:
        return {"created": self.created, "question": self.question, "model": self.model, "state": self.state}


def summaries(directory: Path) -> list[Summary]:
    """The sessions kept in a directory, newest first; files that are no session are passed over."""
    found = (_summary(path) for path in sorted(directory.glob("*.jsonl"), reverse=True))
    return [summary for summary in found if summary]


def _summary(path: Path) -> Summary | None:
    """Reads the first two records and the last, whatever lies between."""
    try:
        with path.open("rb") as file:
            header, started = json.loads(file.readline()), json.loads(file.readline())
            last = _last_line(file)
    except (OSError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(header, dict) or "venus_edge" not in header:
        return None
    try:
        ending = json.loads(last).get("result", {})
    except json.JSONDecodeError:  # torn: killed while it was written
        ending = {}
    return Summary(
        path=path,
        created=str(header.get("created", "")),
        question=str(started.get("question", "")),
        model=str(started.get("model", "")),
        state=str(ending.get("termination", "unfinished")),
    )


def _last_line(file: IO[bytes]) -> bytes:
    """The last line that is not empty, read backwards in blocks."""
    end, tail = file.seek(0, os.SEEK_END), b""
    while end > 0 and b"\n" not in tail.strip():
        start = max(0, end - 65_536)
        file.seek(start)
        tail, end = file.read(end - start) + tail, start
    return tail.strip().rpartition(b"\n")[2]


def slug(question: str, width: int = 40) -> str:
    """A question as part of a file name: its words, any script, joined by dashes; `question` if it has none."""
    words = re.findall(r"\w+", question.lower())
    return "-".join(words)[:width].rstrip("-") or "question"


def _open_new(directory: Path, stem: str) -> tuple[Path, IO[str]]:
    for number in range(1, 1000):
        path = directory / f"{stem}{f'-{number}' if number > 1 else ''}.jsonl"
        try:
            return path, path.open("x", encoding="utf-8", errors="backslashreplace", newline="\n")
        except FileExistsError:
            continue
    raise StorageError(f"there are a thousand sessions named {stem} in {directory}")


def _plain(value: Any) -> Any:
    """Enums by name, whatever dataclasses.asdict left."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value.name.lower() if isinstance(value, Enum) else value
