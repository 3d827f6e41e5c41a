"""What a run says while it runs: one stream that the terminal, the session file, `--json` and the tests all read.

`Streamed` is for the eye only; every other event is enough, in order, to tell the run again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from venus_edge.engine import Finish, Usage
from venus_edge.values import DialectName, Fold, Reply, RunResult, ToolCall, ToolResult

StreamKind = Literal["thinking", "call", "answer", "text"]
DropReason = Literal["malformed", "repetition", "repeated call", "output limit", "time limit", "answer now"]
LimitKind = Literal["turns", "tokens", "time", "asked"]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The question and what it is answered with; `session` is the path of the session file, "" if none is kept.

    `settings` are names and plain values in groups: the model's file, what the run is played by, what the person set.
    """

    question: str
    model: str
    dialect: DialectName
    n_ctx: int
    seed: int
    session: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resumed:
    """A run that had stopped goes on, after `turn` whole turns and `seconds` of work. `restored` tokens of its
    conversation came back from the disk; `differs` says what is not as it was, where the person wanted it so."""

    turn: int
    seconds: float
    restored: int = 0
    differs: str = ""


@dataclass(frozen=True, slots=True)
class AttemptStarted:
    """A reply is being sampled. Turns and attempts count from 1; `prompt_tokens` are those of the whole prompt."""

    turn: int
    attempt: int
    prompt_tokens: int
    n_ctx: int


@dataclass(frozen=True, slots=True)
class Streamed:
    """A stretch of the reply as it comes, without the tags."""

    kind: StreamKind
    text: str


@dataclass(frozen=True, slots=True)
class AttemptDropped:
    """The attempt does not enter the conversation; another one follows if tries are left. `text` is all that the model
    wrote, `finish` why it ended."""

    turn: int
    attempt: int
    reason: DropReason
    detail: str
    text: str
    finish: Finish = "stop"
    usage: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class Replied:
    """The turn's reply, as it entered the conversation, and what it cost. `raw` is what the model wrote, `finish` why
    it ended."""

    turn: int
    reply: Reply
    usage: Usage
    raw: str = ""
    finish: Finish = "stop"


@dataclass(frozen=True, slots=True)
class ToolCalled:
    turn: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolReturned:
    turn: int
    call: ToolCall
    result: ToolResult
    seconds: float


@dataclass(frozen=True, slots=True)
class Folded:
    """The window was nearly full, so the oldest tool replies gave way to one line each, after `turn` turns.

    The prompt went from `before` tokens to `after`; `refilled` of these are evaluated again, because they stand behind
    the first reply that gave way.
    """

    turn: int
    folds: tuple[Fold, ...]
    before: int
    after: int
    refilled: int


@dataclass(frozen=True, slots=True)
class LimitReached:
    """A limit ends the research, or the person ("asked"): the final answer is asked for now. The prompt had `tokens`;
    its last `gone` messages gave way to the limit's."""

    turn: int
    limit: LimitKind
    gone: int = 0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Failed:
    """The language model or the machine failed; the run ends with what it has."""

    turn: int
    error: str


@dataclass(frozen=True, slots=True)
class Traffic:
    """What went to and came from one host, in bytes."""

    host: str
    connections: int
    sent: int
    received: int


@dataclass(frozen=True, slots=True)
class Ledger:
    """What has left the machine since the run began, host by host; the last one of a run is the whole of it."""

    hosts: tuple[Traffic, ...]


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of every run."""

    result: RunResult


Event = (
    RunStarted
    | Resumed
    | AttemptStarted
    | Streamed
    | AttemptDropped
    | Replied
    | ToolCalled
    | ToolReturned
    | Folded
    | LimitReached
    | Failed
    | Ledger
    | Finished
)
