"""A SESSION PLAYED AGAIN: the loop on recorded replies and results, without a model or a network; and what it now does
otherwise than it did.

In: a session. Out: the differences, turn by turn. Or, for a model that answers anew, `Cassette`: a world that holds
what the session searched and read, and nothing else. Token counts are the recorded ones: nothing here can count.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any

from venus_edge.agent import Agent, Config
from venus_edge.engine import Finish, Request, Stats, Usage
from venus_edge.errors import EngineError
from venus_edge.events import (
    AttemptDropped,
    AttemptStarted,
    Event,
    Failed,
    Finished,
    Folded,
    Ledger,
    LimitKind,
    LimitReached,
    Replied,
    Resumed,
    RunStarted,
    ToolReturned,
)
from venus_edge.protocol import Piece, prompt, rendering
from venus_edge.state import State
from venus_edge.tools import Tools
from venus_edge.values import Failure, Found, Message, Page, ToolCall, ToolResult, Trouble
from venus_edge.window import said

_CUTS: dict[str, LimitKind] = {"time limit": "time", "answer now": "asked"}
_MOST_SHOWN = 160  # characters of a difference


class EndOfRecord(Exception):
    """The record has no more: the run was killed there."""


# -- what differs -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Difference:
    """What of a turn is not as it was: the event, its part, and both wordings; "" where there is no such event."""

    turn: int
    what: str
    recorded: str
    now: str

    def __str__(self) -> str:
        if not self.now or not self.recorded:
            return f"turn {self.turn}: {self.what} {'is not there any more' if not self.now else 'is new'}"
        return f"turn {self.turn}: {self.what} was {self.recorded!r}, is {self.now!r}"


def replay(started: RunStarted, events: Sequence[Event], config: Config) -> tuple[Difference, ...]:
    """What the loop of today makes of a recorded run otherwise than the loop of then; nothing, as a rule."""
    then = _without_stops(events)
    tape = _Tape(started, then, config)
    agent = Agent(tape, tape, config, clock=lambda: config.limits.seconds if tape.late else 0.0)
    tape.ask = agent.answer_now
    before, now = _parts(then), _parts(_up_to_the_end(agent.run(started.question)))
    is_whole = bool(then) and isinstance(then[-1], Finished)
    return tuple(_compared(before, now if is_whole else now[: len(before)]))


def _up_to_the_end(events: Iterator[Event]) -> list[Event]:
    """The events, as far as the record goes."""
    found: list[Event] = []
    try:
        for event in events:
            found.append(event)  # noqa: PERF402  (what came before the end of the record is kept)
    except EndOfRecord:
        pass
    return found


def _without_stops(events: Iterable[Event]) -> list[Event]:
    """Without the ends that were none, because the run went on after them or a person stopped it."""
    kept: list[Event] = []
    for event in events:
        if isinstance(event, Resumed):
            while kept and isinstance(kept[-1], Failed | Finished | Ledger):
                kept.pop()
        kept.append(event)
    is_stopped = kept and isinstance(kept[-1], Finished) and kept[-1].result.termination == "interrupted"
    return kept[:-1] if is_stopped else kept


_Parts = dict[str, Any]


def _parts(events: Iterable[Event]) -> list[tuple[int, str, _Parts]]:
    """Turn, name and parts of what the loop decides; what an engine or a clock gives is none of it."""
    return [(_turn(event), type(event).__name__, parts) for event in events if (parts := _decided(event))]


def _turn(event: Event) -> int:
    return event.result.turns if isinstance(event, Finished) else getattr(event, "turn", 0)


def _decided(event: Event) -> _Parts:
    match event:
        case AttemptDropped():
            return {"attempt": event.attempt, "reason": event.reason, "detail": event.detail, "text": event.text}
        case Replied():
            return {"action": event.reply.action, "thought": event.reply.thought, "text": event.reply.text}
        case ToolReturned():
            return {"call": event.call, "result": event.result.text}
        case Folded():
            return {"replies": [fold.message for fold in event.folds], "lines": [fold.text for fold in event.folds]}
        case LimitReached():
            return {"limit": event.limit, "messages": event.gone}
        case Failed():
            return {"error": event.error}
        case Finished(result):
            names = ("termination", "prediction", "answer_cut", "turns", "tool_call_count", "parse_error_count")
            parts = {name: getattr(result, name) for name in (*names, "dedup_count", "fold_count", "sources")}
            return {**parts, "messages": [message.content for message in result.messages]}
    return {}


def _compared(then: Sequence[tuple[int, str, _Parts]], now: Sequence[tuple[int, str, _Parts]]) -> Iterator[Difference]:
    """Turn by turn: of a turn only the first difference, because the rest follows from it."""
    for turn in sorted({turn for turn, _, _ in (*then, *now)}):
        ours = [[(name, parts) for at, name, parts in told if at == turn] for told in (then, now)]
        first = next((pair for pair in zip_longest(*ours) if pair[0] != pair[1]), None)
        if first is not None:
            yield _difference(turn, *first)


def _difference(turn: int, then: tuple[str, _Parts] | None, now: tuple[str, _Parts] | None) -> Difference:
    if then is None or now is None or then[0] != now[0]:
        before, after = then[0] if then else "", now[0] if now else ""
        return Difference(turn, before or after if not (before and after) else "the event", before, after)
    part = next(name for name in then[1] if then[1][name] != now[1][name])
    return Difference(turn, f"{then[0]}, {part}", *_apart(f"{then[1][part]}", f"{now[1][part]}"))


def _apart(a: str, b: str) -> tuple[str, str]:
    """Two texts from a little before where they part."""
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, at - 40)
    return a[start : start + _MOST_SHOWN] or "nothing", b[start : start + _MOST_SHOWN] or "nothing"


# -- the record as engine, tools and clock ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Take:
    """A recorded reply: what came upon the run while it was written, and what after it."""

    text: str
    finish: Finish
    usage: Usage
    during: LimitKind | None
    after: LimitKind | None


class _Tape:
    """Engine and tools of a replay. `late` says that the time had run out; `ask` asks for the answer."""

    n_ctx_reading = 0
    chat_template = ""

    def __init__(self, started: RunStarted, events: Sequence[Event], config: Config) -> None:
        self.n_ctx = started.n_ctx
        self.stats = Stats()
        self.late = False
        self.ask: Callable[[], None] = lambda: None
        self._takes = deque(_takes(events))
        self._results = deque(event for event in events if isinstance(event, ToolReturned))
        self._failed = next((event.error for event in reversed(events) if isinstance(event, Failed)), None)
        self._counts = _Counts(started, events, config)
        self._ids = list(range(started.n_ctx + 100_000))

    def tokenize(self, pieces: Sequence[Piece]) -> list[int]:
        return self._ids[: self._counts.of("".join(piece.text for piece in pieces))]

    def generate(self, request: Request) -> _Played:
        if self._takes:
            return _Played(self._takes.popleft(), self._come)
        if self._failed is not None:
            raise EngineError(self._failed)
        raise EndOfRecord

    def call(self, call: ToolCall, question: str) -> ToolResult:
        if not self._results:
            raise EndOfRecord
        recorded = self._results.popleft()
        return recorded.result if recorded.call == call else ToolResult(NOT_RECORDED)

    def _come(self, limit: LimitKind | None) -> None:
        self.late = self.late or limit == "time"
        if limit == "asked":
            self.ask()

    def cancel(self) -> None:
        """Nothing runs here."""

    def close(self) -> None:
        """Nothing is open."""


class _Played:
    """A Generation from the record, in one piece."""

    def __init__(self, take: _Take, come: Callable[[LimitKind | None], None]) -> None:
        self.finish: Finish | None = None
        self.usage = take.usage
        self._take = take
        self._come = come

    def __iter__(self) -> Iterator[str]:
        self._come(self._take.during)
        if self._take.text:
            yield self._take.text
        self.finish = self._take.finish

    def close(self) -> None:
        self.finish = self.finish or self._take.finish
        self._come(self._take.after)


def _takes(events: Sequence[Event]) -> Iterator[_Take]:
    """The replies in their order. A limit of the clock or of the person belongs to the reply before it."""
    limits: LimitKind | None = None
    found: list[_Take] = []
    for event in reversed(events):
        match event:
            case LimitReached(limit=limit):
                limits = limit if limit in ("time", "asked") else None
            case Replied():
                found.append(_Take(event.raw, event.finish, event.usage, None, limits))
                limits = None
            case AttemptDropped():
                found.append(_Take(event.text, event.finish, event.usage, _CUTS.get(event.reason), limits))
                limits = None
    return reversed(found)


class _Counts:
    """How many tokens a text of the run has: as it was recorded, else by the length of what was."""

    def __init__(self, started: RunStarted, events: Sequence[Event], config: Config) -> None:
        self._known: dict[int, int] = {}
        self._longest = 4, 1  # characters and tokens
        self._template = config.template
        state = State(started.question, list(prompt.opening(started.question, config.today)))
        for event in events:
            self._before(state, event)
            state.add(event)
            if isinstance(event, Folded):
                self._keep(state.messages, event.after)

    def of(self, text: str) -> int:
        known = self._known.get(hash(text))
        characters, tokens = self._longest
        return len(text) * tokens // characters if known is None else known

    def _before(self, state: State, event: Event) -> None:
        match event:
            case AttemptStarted():
                self._keep(state.messages, event.prompt_tokens)
            case LimitReached():
                self._keep(state.messages, event.tokens)
            case Folded():
                self._keep(state.messages, event.before)
                for fold in event.folds:
                    self._known[hash(said(state.messages[fold.message]))] = fold.tokens
                    self._known[hash(fold.text)] = fold.left
            case Finished(result):
                self._keep(state.messages, result.final_token_count, asking=False)

    def _keep(self, messages: Sequence[Message], tokens: int, asking: bool = True) -> None:
        pieces = rendering.render(messages, self._template, asking, as_generated=True)
        text = "".join(piece.text for piece in pieces)
        self._known[hash(text)] = tokens
        self._longest = max(self._longest, (len(text), tokens))


# -- the record as a world --------------------------------------------------------------------------------------------

NOT_RECORDED = "This call is not in the record that is played again, and nothing else can be asked."
_NO_QUERY = Failure(Trouble.UNKNOWN, "This query is not in the record that is played again; only what it holds can.")
_NO_PAGE = "This page is not in the record that is played again."


@dataclass
class Cassette:
    """What a session searched and read, as a Searcher, an Opener and, for the very calls it made, the tools. `missed`
    are the queries and addresses that it does not have."""

    results: dict[ToolCall, ToolResult]
    found: dict[str, Found]
    pages: dict[str, Page | Failure]
    missed: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, events: Iterable[Event]) -> Cassette:
        returned = [event for event in events if isinstance(event, ToolReturned)]
        cassette = cls({event.call: event.result for event in returned}, {}, {})
        for result in (event.result for event in returned):
            cassette.found |= {_query(found.query): found for found in result.found}
            for reading in result.readings:
                page = reading.page or reading.outcome
                if isinstance(page, Page | Failure):
                    cassette.pages[_address(reading.url)] = page
        return cassette

    def search_all(self, queries: Sequence[str], limit: int) -> tuple[Found, ...]:
        return tuple(self._search(query, limit) for query in queries)

    def _search(self, query: str, limit: int) -> Found:
        kept = self.found.get(_query(query))
        if kept is None:
            self.missed.append(query)
            return Found(query, failure=_NO_QUERY)
        return Found(query, kept.hits[:limit], kept.failure)

    def open(self, url: str) -> Page | Failure:
        kept = self.pages.get(_address(url))
        if kept is None:
            self.missed.append(url)
            return Failure(Trouble.UNKNOWN, _NO_PAGE)
        return kept

    def before(self, tools: Tools) -> Tools:
        """`tools`, asked only for calls that the session did not make."""
        return _Before(self, tools)


@dataclass(frozen=True, slots=True)
class _Before:
    cassette: Cassette
    tools: Tools

    def call(self, call: ToolCall, question: str) -> ToolResult:
        return self.cassette.results.get(call) or self.tools.call(call, question)


def _query(query: str) -> str:
    return " ".join(query.casefold().split())


def _address(url: str) -> str:
    return re.sub(r"^https?://(www\.)?", "", url.strip().partition("#")[0], flags=re.IGNORECASE).rstrip("/")
