"""EVENTS -> WHERE A RUN STANDS: what the next turn is asked with, what is due, what has been counted. Pure.

In: the opening messages and the run's events, one by one. Out: a `State`, which the loop reads and nothing else
changes. So a run that was killed stands, once its journal is read again, where it stood when the last line was written.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from venus_edge import guards
from venus_edge.events import (
    AttemptDropped,
    AttemptStarted,
    Event,
    Folded,
    LimitKind,
    LimitReached,
    Replied,
    ToolCalled,
    ToolReturned,
)
from venus_edge.protocol import prompt
from venus_edge.values import Answer, Malformed, Message, SearchCall, Source, Termination, ToolCall, VisitCall

FORCED: dict[LimitKind, str] = {
    "tokens": prompt.TOKEN_LIMIT_TEXT,
    "turns": prompt.TURN_LIMIT_TEXT,
    "time": prompt.TIME_LIMIT_TEXT,
    "asked": prompt.TURN_LIMIT_TEXT,  # of the trained ones the one that is true: no more calls
}
ENDED: dict[LimitKind, tuple[Termination, Termination]] = {  # with an answer, without one (PROTOCOL 4.8)
    "tokens": ("answered_token_limit", "token_limit_no_answer"),
    "turns": ("answered_max_steps", "max_steps"),
    "time": ("timeout", "timeout"),
    "asked": ("answered_on_request", "no_answer_on_request"),
}


class OutOfOrder(ValueError):
    """An event that cannot follow those before it: its number, from 0. The words say what was due."""

    def __init__(self, due: str, number: int) -> None:
        super().__init__(due)
        self.number = number


@dataclass(slots=True)
class State:
    """What a run keeps while it goes on.

    `begun` and `done` count the turns that were begun and that are over, `attempts` the ones dropped of the turn in
    hand; `call` is the call that has no result yet; `standing` are the calls whose replies are in the conversation
    whole, by the reply's place; `seen` is how many tokens of the conversation the model has evaluated.
    """

    question: str
    messages: list[Message]
    begun: int = 0
    done: int = 0
    attempts: int = 0
    call: ToolCall | None = None
    limit: LimitKind | None = None
    asked: bool = False
    over: bool = False
    answer: Answer | None = None
    seen: int = 0
    standing: dict[int, ToolCall] = field(default_factory=dict)
    folded: list[Folded] = field(default_factory=list)
    sources: dict[str, Source] = field(default_factory=dict)
    tool_calls: int = 0
    parse_errors: int = 0
    dedups: int = 0

    @property
    def termination(self) -> Termination | None:
        """How the research ended; None while it goes on."""
        if not self.over:
            return None
        return "answered" if self.limit is None else ENDED[self.limit][self.answer is None]

    def told(self, limit: LimitKind, gone: int) -> list[Message]:
        """The conversation that asks for the answer: the limit's message in the place of the last `gone`."""
        return [*self.messages[: len(self.messages) - gone], prompt.tool_reply(FORCED[limit])]

    def add(self, event: Event) -> None:
        """Takes in what has happened. What is only told (a start, a failure, an end) changes nothing."""
        match event:
            case AttemptStarted():
                self.begun = event.turn
            case AttemptDropped():
                self._dropped(event)
            case Replied():
                self._replied(event)
            case ToolReturned():
                self._returned(event)
            case Folded():
                for fold in event.folds:
                    self.messages[fold.message] = prompt.tool_reply(fold.text)
                    del self.standing[fold.message]
                self.folded.append(event)
            case LimitReached():
                self.messages = self.told(event.limit, event.gone)
                self.limit, self.asked = event.limit, self.asked or event.limit == "asked"
                self.done, self.attempts = self.begun, 0

    def _dropped(self, event: AttemptDropped) -> None:
        self.attempts = event.attempt
        match event.reason:
            case "repeated call":
                self.dedups += 1
            case "time limit" | "answer now":  # the turn was cut in its middle
                self.asked = self.asked or event.reason == "answer now"
                self.done, self.attempts = event.turn, 0
            case _:
                self.parse_errors += 1

    def _replied(self, event: Replied) -> None:
        self.messages.append(Message("assistant", event.reply.text))
        self.seen = event.usage.reused_tokens + event.usage.evaluated_tokens
        self.done, self.attempts = event.turn, 0
        final = self.limit is not None
        match event.reply.action:
            case Answer() as answer:
                self.answer, self.over = answer, True
            case Malformed():
                self.parse_errors += 1
                if not final:
                    self.messages.append(prompt.tool_reply(prompt.MALFORMED_TEXT))
            case _ if final:
                self.parse_errors += 1
            case call:
                self.dedups += guards.is_repeated(call, self.standing.values())
                self.call = call
                self.tool_calls += 1
        self.over = self.over or final

    def _returned(self, event: ToolReturned) -> None:
        self.standing[len(self.messages)] = event.call
        self.messages.append(prompt.tool_reply(event.result.text))
        self.sources.update({source.url: source for source in event.result.sources})
        self.call = None


# -- out of a record --------------------------------------------------------------------------------------------------


def rebuilt(state: State, events: Iterable[Event]) -> State:
    """`state`, the opening one, after the events of a record. Raises OutOfOrder for what cannot have happened so: a
    record that somebody has edited."""
    for number, event in enumerate(events):
        if (due := _due_instead(state, event)) is not None:
            raise OutOfOrder(due, number)
        state.add(event)
    return state


def _due_instead(state: State, event: Event) -> str | None:
    """What was due where this event stands, None if it may stand there."""
    match event:
        case AttemptStarted(turn=turn, attempt=attempt):
            right = not state.over and state.call is None and (turn, attempt) == (state.done + 1, state.attempts + 1)
        case AttemptDropped(turn=turn, attempt=attempt):
            right = not state.over and (turn, attempt) == (state.done + 1, state.attempts + 1) and turn == state.begun
        case Replied(turn=turn):
            right = not state.over and turn == state.begun == state.done + 1
        case ToolCalled(turn=turn, call=call) | ToolReturned(turn=turn, call=call):
            right = state.call is not None and (turn, call) == (state.done, state.call)
        case Folded(folds=folds):
            right = state.call is None and all(state.standing.get(fold.message) == fold.call for fold in folds)
        case LimitReached(gone=gone):
            right = state.limit is None and state.call is None and 0 <= gone <= len(state.messages) - 2
        case _:
            return None
    return None if right else _due(state)


def _due(state: State) -> str:
    if state.over:
        return "the run's end"
    match state.call:
        case SearchCall() | VisitCall():
            return f"the result of turn {state.done}'s call"
        case _:
            return f"turn {state.done + 1}, attempt {state.attempts + 1}"
