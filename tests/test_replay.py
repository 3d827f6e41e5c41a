"""A session played again: nothing differs where nothing was changed, and what differs is said by the turn."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.test_agent import ANSWER, PAGE, QUESTION, TODAY, search, visit
from tests.test_state import STORIES, Story, played
from venus_edge import demo
from venus_edge.agent import Config
from venus_edge.cli.app import cli
from venus_edge.engine import Sampling
from venus_edge.events import (
    AttemptDropped,
    Event,
    Failed,
    Finished,
    LimitReached,
    Replied,
    Resumed,
    RunStarted,
    ToolReturned,
)
from venus_edge.guards import Limits
from venus_edge.replay import Cassette, Difference, replay
from venus_edge.values import Answer, Failure, Found, Hit, SearchCall, ToolResult, Trouble, VisitCall


def config(story: Story) -> Config:
    return Config(TODAY, Sampling(seed=3), story.limits)


def started(story: Story) -> RunStarted:
    return RunStarted(QUESTION, "m", "rl", story.n_ctx, 3)


def recorded(story: Story) -> list[Event]:
    agent, _ = story.agent()
    return [event for event, _ in played(agent, agent.run(QUESTION))]


@pytest.mark.parametrize("name", STORIES)
def test_a_record_played_again_is_as_it_was(name: str) -> None:
    story = STORIES[name]
    assert replay(started(story), recorded(story), config(story)) == ()


@pytest.mark.parametrize("name", STORIES)
def test_as_far_as_it_goes_too(name: str) -> None:
    story = STORIES[name]
    events = recorded(story)
    for cut in range(len(events)):
        assert replay(started(story), events[:cut], config(story)) == (), cut


def test_a_run_that_was_stopped_and_went_on_is_one_run() -> None:
    story = STORIES["plain"]
    events = recorded(story)
    stop: list[Event] = [Failed(2, "gone"), replace_ending(events[-1], "llm_error"), Resumed(1, 0.5)]
    assert replay(started(story), [*events[:5], *stop, *events[4:]], config(story)) == ()


def replace_ending(event: Event, termination: Any) -> Event:
    assert isinstance(event, Finished)
    return Finished(replace(event.result, termination=termination))


@pytest.mark.parametrize("limit", ["time", "asked"])
def test_what_the_clock_or_a_person_did_is_done_again(limit: Any) -> None:
    """A turn cut in its middle, and the answer after it."""
    story = Story([search("a"), "It was 点亮", ANSWER], Limits(seconds=15), seconds=10.0)
    agent, tools = story.agent()
    events: list[Event] = []
    for event, _ in played(agent, agent.run(QUESTION)):
        events.append(event)
        if len(events) == 5:  # the second attempt has begun
            if limit == "asked":
                agent.answer_now()
            tools.now += 0 if limit == "asked" else 100
    assert [e.reason for e in events if isinstance(e, AttemptDropped)] == [
        {"time": "time limit", "asked": "answer now"}[limit]
    ]
    assert [e.limit for e in events if isinstance(e, LimitReached)] == [limit]
    assert replay(started(story), events, config(story)) == ()


def test_what_the_code_now_does_otherwise_is_said_turn_by_turn() -> None:
    story = STORIES["plain"]
    events = recorded(story)
    at = next(n for n, event in enumerate(events) if isinstance(event, Replied) and event.turn == 3)
    reply = events[at]
    assert isinstance(reply, Replied)
    events[at] = replace(reply, reply=replace(reply.reply, action=Answer("1816")))
    assert replay(started(story), events, config(story)) == (
        Difference(3, "Replied, action", "Answer(text='1816', cut=False)", "Answer(text='1916', cut=False)"),
    )
    assert str(Difference(2, "ToolReturned", "ToolReturned", "")) == "turn 2: ToolReturned is not there any more"


def test_a_stricter_limit_shows_where_the_run_now_ends() -> None:
    story = STORIES["plain"]
    found = replay(started(story), recorded(story), Config(TODAY, Sampling(seed=3), Limits(turns=1)))
    assert next(str(difference) for difference in found) == "turn 1: LimitReached is new"


# -- a cassette -------------------------------------------------------------------------------------------------------


class Nothing:
    """Tools that say that they were asked."""

    def call(self, call: object, question: str) -> ToolResult:
        return ToolResult("asked")


def test_a_cassette_answers_what_the_session_searched_and_read_and_nothing_else() -> None:
    hits = (Hit("t", PAGE.url, "s"), Hit("u", "https://b.example", "s"))
    found = ToolResult("hits", (Found("Kereon  灯塔", hits),))
    call = SearchCall(("Kereon  灯塔",))
    cassette = Cassette.of([*recorded(STORIES["plain"]), ToolReturned(9, call, found, 0.1)])
    assert cassette.before(Nothing()).call(call, "?") == found
    assert cassette.before(Nothing()).call(SearchCall(("other",)), "?").text == "asked"
    assert cassette.search_all(["kereon 灯塔"], 1) == (Found("kereon 灯塔", hits[:1]),)
    assert cassette.open("http://www.example.org/kereon/#top") == PAGE
    (missing,) = cassette.search_all(["moon"], 3)
    nowhere = cassette.open("https://moon.example")
    assert isinstance(nowhere, Failure)
    assert missing.failure is not None
    assert (missing.failure.trouble, nowhere.trouble) == (Trouble.UNKNOWN, Trouble.UNKNOWN)
    assert "not in the record" in missing.failure.detail
    assert cassette.missed == ["moon", "https://moon.example"]


# -- the command ------------------------------------------------------------------------------------------------------


def say(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments))


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The session of a demo run."""
    monkeypatch.setenv("VENUS_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("VENUS_CACHE_DIR", str(tmp_path / "cache"))
    assert say("run", "--demo", "-q").exit_code == 0
    (path,) = (tmp_path / "data" / "sessions").glob("*.jsonl")
    return path


def test_a_demo_run_is_played_again_without_a_model(session: Path) -> None:
    result = say("sessions", "replay")
    assert (result.exit_code, result.output) == (0, f"{session.stem}: 3 turns, all as they were\n")


def test_a_difference_is_exit_code_1(session: Path) -> None:
    session.write_text(
        session.read_text().replace('"reason": "', '"reason": "x').replace('"thought": "The', '"thought": "Th')
    )
    result = say("sessions", "replay", session.stem)
    assert result.exit_code == 1
    assert "turn 3: Replied, thought was 'Th page says" in result.stdout


def test_a_page_that_is_not_here_any_more_is_said(session: Path, tmp_path: Path) -> None:
    text = (
        session.read_text().replace("length of 29 metres", "length of 92 metres").replace('"sha256": "', '"sha256": "0')
    )
    session.write_text(text.replace(f'"corpus": ["{demo.CORPUS}"], ', ""))
    result = say("sessions", "replay", "--json")
    assert "https://atlas.example/Pilnike is no longer in the cache; the session has what was read" in result.stdout


def test_another_model_answers_anew_on_the_recorded_tools(session: Path) -> None:
    result = say("sessions", "replay", session.stem, "--model", demo.MODEL, "-q")
    assert (result.exit_code, result.stdout) == (
        0,
        f"The length of the Pilnike Garden is {demo.questions()[0].expect}.\n",
    )
    (new,) = set(session.parent.glob("*.jsonl")) - {session}
    changed = say("sessions", "replay", session.stem, "-m", demo.MODEL, "--set", "max_turns=1", "--json", "-q")
    assert json.loads(changed.stdout)["turns"] == 2
    assert say("sessions", "replay", "--set", "max_turns=1").exit_code == 2
    assert "does not know: moon" in say("sessions", "replay", "-m", demo.MODEL, "--set", "moon=1", session.stem).output
    refused = say("sessions", "resume", new.stem)
    assert refused.exit_code == 2
    assert say("sessions", "replay", new.stem).exit_code == 0


def test_a_visit_to_what_the_record_has_for_another_goal_is_read_again() -> None:
    cassette = Cassette.of(recorded(STORIES["plain"]))
    assert cassette.before(Nothing()).call(VisitCall((PAGE.url,), "height"), "?").text == "asked"
    assert cassette.open(PAGE.url) == PAGE
    assert visit(PAGE.url)
