"""A DIRECTORY -> ITS SESSIONS: one line each, read from the two ends of a file; and the one that a person means.

In: the directory, a part of a name. Out: summaries, newest first; a path. Files that are no session are passed over.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from venus_edge.errors import StorageError, UsageError
from venus_edge.sessions import SCHEMA, SUFFIX, UNFINISHED, lock, snapshot
from venus_edge.sessions.reading import last_lines, writer

_LOOK = 8  # last lines that tell where an unfinished run stands
RUNNING = "running"


@dataclass(frozen=True, slots=True)
class Summary:
    """One line of the list of sessions. `state` is the termination, or `running`, or `unfinished`; `turns`, `tokens` of
    the conversation and `seconds` are those so far."""

    path: Path
    created: str
    question: str
    model: str
    state: str
    turns: int = 0
    tokens: int = 0
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """For JSON: `id` is what the other commands take."""
        values = {**asdict(self), "path": str(self.path), "minutes": round(self.seconds / 60, 2)}
        return {"id": self.path.stem, **values}

    @property
    def can_go_on(self) -> bool:
        return self.state in ("unfinished", *UNFINISHED)


def summaries(directory: Path) -> list[Summary]:
    """The sessions kept in a directory, newest first; files that are no session are passed over."""
    return [one for path in _files(directory) if (one := summary(path))]


def _files(directory: Path) -> list[Path]:
    """Newest first: a name begins with the time, and those of one second are numbered."""
    return sorted(directory.glob(f"*{SUFFIX}"), key=lambda path: path.stem, reverse=True)


def summary(path: Path) -> Summary | None:
    """Reads the first two records and the last ones, whatever lies between."""
    try:
        with path.open("rb") as file:
            header, started = _object(file.readline()), _object(file.readline())
            tail = [_object(line) for line in reversed(last_lines(file, _LOOK))]
    except OSError:
        return None
    if "venus_edge" not in header:
        return None
    result: dict[str, Any] = next(
        (record["result"] for record in tail[:1] if isinstance(record.get("result"), dict)), {}
    )
    is_newer = isinstance(header.get("schema"), int) and header["schema"] > SCHEMA
    return Summary(
        path=path,
        created=str(header.get("created", "")),
        question=str(started.get("question", "")),
        model=str(started.get("model", "")),
        state="of a newer version" if is_newer else _state(path, result),
        turns=int(_number(result.get("turns")) or max((_number(record.get("turn")) for record in tail), default=0)),
        tokens=int(_number(result.get("final_token_count")) or next(filter(None, map(_tokens, tail)), 0)),
        seconds=_number(result.get("elapsed_seconds")) or next(filter(None, map(_at, tail)), 0.0),
    )


def _state(path: Path, result: dict[str, Any]) -> str:
    termination = str(result.get("termination", ""))
    if termination not in UNFINISHED:
        return termination
    return RUNNING if lock.is_taken(path) else termination or "unfinished"


def _object(line: bytes) -> dict[str, Any]:
    """The record of a line, {} for what is none: torn, or not JSON."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _tokens(record: dict[str, Any]) -> float:
    usage = record.get("usage")
    if record.get("event") == "Replied" and isinstance(usage, dict):
        return _number(usage.get("prompt_tokens")) + _number(usage.get("generated_tokens"))
    return _number(record.get("prompt_tokens"))


def _at(record: dict[str, Any]) -> float:
    return _number(record.get("at"))


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


# -- the one that is meant --------------------------------------------------------------------------------------------


def find(directory: Path, named: str | None, unfinished: bool = False) -> Path:
    """The file of a path, of a part of a name, or the newest (of those that can go on, if `unfinished`). Raises
    UsageError if that is none or several."""
    if named and Path(named).is_file():
        return Path(named)
    found = [path for path in _files(directory) if (named or "") in path.stem]
    if unfinished and not named:
        found = [path for path in found if (one := summary(path)) is not None and one.can_go_on][:1]
    if not found:
        what = f"no session {named!r}" if named else "no unfinished session" if unfinished else "no session yet"
        raise UsageError(f"{what} in {directory}; venus-edge sessions list shows them")
    exact = [path for path in found if path.stem == named]
    if named and len(found) > 1 and not exact:
        raise UsageError(f"{named!r} is in {len(found)} names: {', '.join(path.stem for path in found[:4])}")
    return (exact or found)[0]


def remove(path: Path) -> None:
    """Deletes a session and what lies beside it. Raises StorageError where a run still writes it."""
    if lock.is_taken(path):
        raise StorageError(f"session {path.stem} is being written by {writer(path)}; stop that one first")
    try:
        path.unlink()
        snapshot.remove(path)
    except OSError as error:
        raise StorageError(f"session {path} cannot be deleted: {error.strerror}") from error
