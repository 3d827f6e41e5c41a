"""Where a run stands, out of its events alone: the same as where the loop itself stood, at every one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import replace

import pytest

from tests.test_agent import ANSWER, PAGE, QUESTION, TODAY, NotedTools, search, turn, visit
from venus_edge.agent import Agent, Config, _Run
from venus_edge.engine import Sampling
from venus_edge.engine.scripted import Script, ScriptedEngine
from venus_edge.events import (
    AttemptDropped,
    AttemptStarted,
    Event,
    Failed,
    Finished,
    LimitReached,
    Replied,
    Streamed,
    ToolCalled,
    ToolReturned,
)
from venus_edge.guards import Limits
from venus_edge.protocol import prompt
from venus_edge.state import OutOfOrder, State, rebuilt
from venus_edge.values import SearchCall, ToolResult

BAD = turn("hm", "I would like to search.")
LOOP = "Wait, I should check the year again. 我再看一遍。" * 60


class Story:
    """A run to be killed: its replies in order, the window, the limits, seconds a call takes, when `a` is pressed."""

    def __init__(
        self, replies: list[Script], limits: Limits | None = None, n_ctx: int = 1_000_000, seconds: float = 0.0
    ) -> None:
        self.replies, self.limits, self.n_ctx, self.seconds = replies, limits or Limits(), n_ctx, seconds

    def agent(self, done: int = 0, spent: float = 0.0) -> tuple[Watched, NotedTools]:
        """An agent whose model has given `done` replies already."""
        tools = NotedTools(self.seconds)
        tools.now = spent
        engine = ScriptedEngine(self.replies[done:], n_ctx=self.n_ctx)
        return Watched(engine, tools, Config(TODAY, Sampling(seed=3), self.limits), lambda: tools.now), tools


class Watched(Agent):
    """Keeps the run that it plays, to look at its state."""

    run_in_hand: _Run

    def _opening(self, question: str, seconds: float) -> _Run:
        self.run_in_hand = super()._opening(question, seconds)
        return self.run_in_hand


def long_search(number: int) -> str:
    return search(f"Kereon {number} 灯塔", thought="I think about it. " * 20)


STORIES = {
    "plain": Story([search("Kereon lit"), visit(PAGE.url), ANSWER]),
    "retries": Story([BAD, LOOP, search("a"), search("a"), search("a"), search("b"), (BAD, "length"), ANSWER]),
    "malformed": Story([*[BAD] * 5, search("灯塔"), *[search("灯塔")] * 5, ANSWER]),
    "turn limit": Story([search("a"), visit(PAGE.url), search("b"), ANSWER], Limits(turns=2)),
    "no answer": Story([search("a"), *[search("c")] * 5], Limits(turns=1)),
    "time limit": Story([search("a"), search("b"), ANSWER], Limits(seconds=15), seconds=10.0),
    "token limit": Story([long_search(1), long_search(2), ANSWER], Limits(tokens=3_500)),
    "folded": Story([*[long_search(number) for number in range(1, 30)], ANSWER], n_ctx=9_000),
    "script ends": Story([search("a")]),
}


def opening() -> State:
    return State(QUESTION, list(prompt.opening(QUESTION, TODAY)))


def played(agent: Watched, events: Iterable[Event]) -> Iterator[tuple[Event, State]]:
    """Every event that is kept, and where the loop stands after it."""
    for event in events:
        if not isinstance(event, Streamed):
            yield event, deepcopy(agent.run_in_hand.state)


def without_costs(event: Event) -> Event:
    """The event without what a restart changes: which tokens were in the cache, how long it took."""
    match event:
        case Replied() | AttemptDropped():
            return replace(event, usage=replace(event.usage, reused_tokens=0, evaluated_tokens=0, seconds=0.0))
        case Finished(result):
            return Finished(replace(result, elapsed_seconds=0.0))
        case Failed():  # the scripted engine counts its own replies
            return replace(event, error=event.error[:29])
    return event


@pytest.mark.parametrize("name", STORIES)
def test_at_every_event_the_state_is_what_the_events_say(name: str) -> None:
    agent, _ = STORIES[name].agent()
    so_far: list[Event] = []
    for event, live in played(agent, agent.run(QUESTION)):
        so_far.append(event)
        assert rebuilt(opening(), so_far) == live
    assert isinstance(so_far[-1], Finished)


@pytest.mark.parametrize("name", STORIES)
def test_a_run_killed_after_any_event_goes_on_as_if_it_had_not_been(name: str) -> None:
    story = STORIES[name]
    agent, tools = story.agent()
    whole, spent = [], []
    for event, _ in played(agent, agent.run(QUESTION)):
        whole.append(event)
        spent.append(tools.now)
    for cut in range(len(whole)):
        earlier, seconds = whole[:cut], spent[cut - 1] if cut else 0.0
        replies = sum(isinstance(event, Replied | AttemptDropped) for event in earlier)
        again, tools = story.agent(replies, seconds)
        rest = [event for event, _ in played(again, again.resume(QUESTION, earlier, seconds))]
        assert [without_costs(e) for e in rest] == [without_costs(e) for e in whole[resumed_at(whole, cut) :]], cut


def resumed_at(whole: list[Event], cut: int) -> int:
    """Where the events go on: what was begun is begun again, an end that was told is told again."""
    while cut and isinstance(whole[cut - 1], AttemptStarted | ToolCalled | Failed | Finished):
        cut -= 1
    return cut


def test_what_was_returned_is_not_fetched_again() -> None:
    agent, _ = STORIES["plain"].agent()
    whole = [event for event, _ in played(agent, agent.run(QUESTION))]
    at = next(n for n, event in enumerate(whole) if isinstance(event, ToolReturned))
    again, tools = STORIES["plain"].agent(1)
    list(again.resume(QUESTION, whole[: at + 1], 0.0))
    assert [type(call).__name__ for call in tools.calls] == ["VisitCall"]


def test_the_time_that_a_run_took_before_counts() -> None:
    story = Story([search("a"), search("b"), ANSWER], Limits(seconds=100))
    agent, _ = story.agent()
    whole = [event for event, _ in played(agent, agent.run(QUESTION))]
    again, _ = story.agent(2, spent=7.0)
    rest = list(again.resume(QUESTION, whole[:8], 101.0))
    assert [(e.turn, e.limit, e.gone) for e in rest if isinstance(e, LimitReached)] == [(2, "time", 1)]
    assert isinstance(rest[-1], Finished)
    assert (rest[-1].result.termination, rest[-1].result.elapsed_seconds) == ("timeout", 101.0)


def test_an_answer_that_was_asked_for_before_the_kill_is_still_asked_for() -> None:
    story = Story([search("a"), "never read", ANSWER])
    agent, _ = story.agent()
    earlier = [event for event, _ in played(agent, agent.run(QUESTION))][:4]
    cut: list[Event] = [
        AttemptStarted(2, 1, 9, 9),
        AttemptDropped(2, 1, "answer now", "the answer was asked for", "never"),
    ]
    again, _ = story.agent(2)
    rest = list(again.resume(QUESTION, [*earlier, *cut], 0.0))
    assert isinstance(rest[-1], Finished)
    assert (rest[-1].result.termination, rest[-1].result.turns) == ("answered_on_request", 3)


@pytest.mark.parametrize(
    ("edit", "due"),
    [
        (lambda events: [events[0], *events[2:]], "turn 1, attempt 1"),
        (lambda events: [*events[:3], *events[4:]], "the result of turn 1's call"),
        (lambda events: [*events[:4], *events[:4]], "turn 2, attempt 1"),
        (lambda events: [events[1], events[0]], "turn 1, attempt 1"),
        (lambda events: [*events[:-1], events[4], *events[-1:]], "the run's end"),
        (lambda e: [*e[:3], ToolReturned(1, SearchCall(("x",)), ToolResult("x"), 0.0)], "the result of turn 1's call"),
    ],
)
def test_events_that_somebody_has_put_in_another_order_are_refused(
    edit: Callable[[list[Event]], list[Event]], due: str
) -> None:
    agent, _ = STORIES["plain"].agent()
    whole = [event for event, _ in played(agent, agent.run(QUESTION))]
    with pytest.raises(OutOfOrder, match=due):
        rebuilt(opening(), edit(whole))
