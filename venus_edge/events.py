"""What a run says while it runs: one stream that the terminal, the session file, `--json` and the tests all read.

`Streamed` is for the eye only; every other event is enough, in order, to tell the run again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from venus_edge.engine import Usage
from venus_edge.values import DialectName, Fold, Reply, RunResult, ToolCall, ToolResult

StreamKind = Literal["thinking", "call", "answer", "text"]
DropReason = Literal["malformed", "repetition", "repeated call", "output limit", "time limit", "answer now"]
LimitKind = Literal["turns", "tokens", "time", "asked"]


@dataclass(frozen=True, slots=True)
class RunStarted:
    """The question and what it is answered with; `session` is the path of the session file, "" if none is kept."""

    question: str
    model: str
    dialect: DialectName
    n_ctx: int
    seed: int
    session: str = ""


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
    """The attempt does not enter the conversation; another one follows if tries are left."""

    turn: int
    attempt: int
    reason: DropReason
    detail: str
    text: str


@dataclass(frozen=True, slots=True)
class Replied:
    """The turn's reply, as it entered the conversation, and what it cost."""

    turn: int
    reply: Reply
    usage: Usage


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
    """A limit ends the research, or the person ("asked"): the final answer is asked for now."""

    turn: int
    limit: LimitKind


@dataclass(frozen=True, slots=True)
class Failed:
    """The language model or the machine failed; the run ends with what it has."""

    turn: int
    error: str


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of every run."""

    result: RunResult


Event = (
    RunStarted
    | AttemptStarted
    | Streamed
    | AttemptDropped
    | Replied
    | ToolCalled
    | ToolReturned
    | Folded
    | LimitReached
    | Failed
    | Finished
)
