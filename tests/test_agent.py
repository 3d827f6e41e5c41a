"""The loop against goldens written by hand from the protocol: the message list, the events and the record of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from venus_edge import window
from venus_edge.agent import GREEDY_RETRY_TEMPERATURE, Agent, Config
from venus_edge.engine import Request, Sampling
from venus_edge.engine.scripted import ScriptedEngine, ScriptedGeneration
from venus_edge.errors import EngineError
from venus_edge.events import (
    AttemptDropped,
    AttemptStarted,
    Event,
    Failed,
    Finished,
    Folded,
    LimitReached,
    Replied,
    Streamed,
)
from venus_edge.guards import Limits, reserve
from venus_edge.protocol import prompt
from venus_edge.report.session import report
from venus_edge.sessions.journal import Journal
from venus_edge.sessions.reading import read
from venus_edge.values import (
    Evidence,
    Message,
    Page,
    PageReading,
    RunResult,
    SearchCall,
    Source,
    ToolCall,
    ToolResult,
    VisitCall,
)

TODAY = date(2026, 3, 1)
QUESTION = "When was the Kereon lighthouse lit? 灯塔何时点亮?"
SYSTEM = Message("system", prompt.system_prompt(TODAY))
PAGE = Page("https://example.org/kereon", "Kereon", "Lit in 1916.", "ab12")


def turn(thought: str, rest: str) -> str:
    """What the model writes after the generation prompt, which ended with `<think>` and a line break."""
    return f"{thought}\n</think>\n\n{rest}"


def search(query: str, thought: str = "I search.") -> str:
    return turn(thought, f'<tool_call>\n{{"name": "search", "arguments": {{"query": ["{query}"]}}}}\n</tool_call>')


def visit(url: str) -> str:
    return turn(
        "I read.",
        f'<tool_call>\n{{"name": "visit", "arguments": {{"url": ["{url}"], "goal": "year"}}}}\n</tool_call>',
    )


ANSWER = turn("It says 1916.", "<answer>1916</answer>")


def kept(text: str) -> Message:
    return Message("assistant", "<think>\n" + text)


def told(text: str) -> Message:
    return Message("user", f"<tool_response>\n{text}\n</tool_response>")


class NotedTools:
    """Tools that answer from a table and remember what was asked; each call takes `seconds` on their clock."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.calls: list[ToolCall] = []
        self.now = 0.0
        self._seconds = seconds

    def call(self, call: ToolCall, question: str) -> ToolResult:
        self.calls.append(call)
        self.now += self._seconds
        if isinstance(call, SearchCall):
            return ToolResult(f"hits for {call.queries[0]}")
        return ToolResult("page text", readings=(PageReading(PAGE.url, Evidence("Lit in 1916.", "1916"), PAGE),))


def play(
    replies: list[str | tuple[str, str]],
    limits: Limits = Limits(),  # noqa: B008  (frozen)
    sampling: Sampling = Sampling(max_tokens=15_000),  # noqa: B008  (frozen)
    tool_seconds: float = 0.0,
    n_ctx: int = 1_000_000,
) -> tuple[RunResult, list[Event], ScriptedEngine, NotedTools]:
    engine, tools = ScriptedEngine(replies, n_ctx=n_ctx), NotedTools(tool_seconds)
    events = list(Agent(engine, tools, Config(TODAY, sampling, limits), lambda: tools.now).run(QUESTION))
    last = events[-1]
    assert isinstance(last, Finished)
    return last.result, events, engine, tools


def dropped(events: list[Event]) -> list[tuple[int, int, str]]:
    return [(e.turn, e.attempt, e.reason) for e in events if isinstance(e, AttemptDropped)]


def test_a_run_is_the_official_message_list_turn_for_turn() -> None:
    result, events, engine, tools = play([search("Kereon lit"), visit(PAGE.url), ANSWER])
    assert result.messages == (
        SYSTEM,
        Message("user", QUESTION),
        kept(search("Kereon lit")),
        told("hits for Kereon lit"),
        kept(visit(PAGE.url)),
        told("page text"),
        kept(ANSWER),
    )
    assert tools.calls == [SearchCall(("Kereon lit",)), VisitCall((PAGE.url,), "year")]
    assert (result.prediction, result.termination, result.turns) == ("1916", "answered", 3)
    assert (result.tool_call_count, result.parse_error_count, result.dedup_count) == (2, 0, 0)
    assert result.sources == (Source(PAGE.url, "Kereon", "ab12"),)
    assert [type(event).__name__ for event in events if not isinstance(event, Streamed)] == [
        *("AttemptStarted", "Replied", "ToolCalled", "ToolReturned"),
        *("AttemptStarted", "Replied", "ToolCalled", "ToolReturned"),
        *("AttemptStarted", "Replied", "Finished"),
    ]
    assert all(request.stop == ("<tool_response>",) for request in engine.requests)


def test_failed_tries_leave_no_trace_in_the_conversation() -> None:
    loop = "Wait, I should check the year again. " * 60
    result, events, _, _ = play(["no action at all", loop, search("a"), ANSWER])
    assert dropped(events) == [(1, 1, "malformed"), (1, 2, "repetition")]
    assert result.messages[2:] == (kept(search("a")), told("hits for a"), kept(ANSWER))
    assert (result.termination, result.turns, result.parse_error_count) == ("answered", 2, 2)


def test_a_malformed_last_try_stays_and_is_told_so() -> None:
    bad = turn("hm", "I would like to search.")
    result, events, _, tools = play([*[bad] * 5, ANSWER])
    assert dropped(events) == [(1, number, "malformed") for number in range(1, 5)]
    assert result.messages[2:] == (
        kept(bad),
        told(
            "ERROR!\nPlease call a tool with the correct format, or if you are ready to answer, "
            "provide the entire final answer in `<answer></answer>` tags."
        ),
        kept(ANSWER),
    )
    assert (tools.calls, result.tool_call_count, result.parse_error_count, result.turns) == ([], 0, 5, 2)


def test_a_reply_in_circles_is_never_kept_whole() -> None:
    loop = "The tide table, let me see the tide table. " * 400
    result, events, _, _ = play([*[loop] * 5, ANSWER])
    stored = result.messages[2].content
    assert dropped(events) == [(1, number, "repetition") for number in range(1, 5)]
    assert len(stored) < 200
    assert stored.startswith("<think>\nThe tide table")
    assert stored.count("</think>") == 1
    assert result.messages[3] == told(prompt.MALFORMED_TEXT)


def test_a_repeated_call_is_tried_again() -> None:
    again = search("a", "Once more.")
    result, events, _, tools = play([search("a"), again, search("b"), ANSWER])
    assert dropped(events) == [(2, 1, "repeated call")]
    assert tools.calls == [SearchCall(("a",)), SearchCall(("b",))]
    assert (result.dedup_count, result.tool_call_count, result.turns) == (1, 2, 3)


def test_a_call_repeated_to_the_last_try_runs_anyway() -> None:
    result, _, _, tools = play([search("a"), *[search("a")] * 5, ANSWER])
    assert tools.calls == [SearchCall(("a",))] * 2
    assert (result.dedup_count, result.tool_call_count, result.turns) == (5, 2, 3)


@pytest.mark.parametrize(
    ("last", "termination", "said"), [(ANSWER, "answered_max_steps", "1916"), (search("z"), "max_steps", "")]
)
def test_the_turn_limit_asks_for_the_answer_in_place_of_the_last_tool_reply(
    last: str, termination: str, said: str
) -> None:
    result, events, _, tools = play([search("a"), search("b"), *[last] * 5], Limits(turns=2))
    assert result.messages[4:] == (
        kept(search("b")),
        told(
            "You've reached the maximum number of tool calls. "
            "Based on the information and knowledge you have gathered, "
            "please provide the entire final answer in `<answer></answer>` tags now."
        ),
        kept(last),
    )
    assert [(e.turn, e.limit, e.gone) for e in events if isinstance(e, LimitReached)] == [(2, "turns", 1)]
    assert (result.termination, result.prediction, len(tools.calls)) == (termination, said, 2)


@pytest.mark.parametrize(
    ("last", "termination"), [(ANSWER, "answered_token_limit"), (turn("", "no"), "token_limit_no_answer")]
)
def test_the_token_limit_asks_for_the_answer_after_the_turn_that_passed_it(last: str, termination: str) -> None:
    opening = play([ANSWER])[0].final_token_count
    result, events, _, _ = play([search("a"), *[last] * 5], Limits(tokens=opening))
    assert result.messages[3] == told(
        "You have reached the maximum context length. Based on the information and knowledge you have gathered, please "
        "provide the entire final answer in `<answer></answer>` tags now."
    )
    assert [(e.turn, e.limit, e.gone) for e in events if isinstance(e, LimitReached)] == [(1, "tokens", 1)]
    assert result.termination == termination


def test_the_time_limit_asks_for_the_answer_and_is_named_timeout() -> None:
    result, events, _, _ = play([search("a"), search("b"), ANSWER], Limits(seconds=50), tool_seconds=30)
    assert [(e.turn, e.limit, e.gone) for e in events if isinstance(e, LimitReached)] == [(2, "time", 1)]
    assert result.messages[4:] == (kept(search("b")), told(prompt.TIME_LIMIT_TEXT), kept(ANSWER))
    assert (result.termination, result.prediction, result.elapsed_seconds) == ("timeout", "1916", 60)


def test_time_that_runs_out_while_a_turn_is_written_ends_it_there_and_never_replaces_the_question() -> None:
    times = iter([0.0, *[99.0] * 1000])
    engine = ScriptedEngine([search("a"), ANSWER])
    run = Agent(engine, NotedTools(), Config(TODAY, limits=Limits(seconds=50)), lambda: next(times)).run(QUESTION)
    *_, last = run
    assert isinstance(last, Finished)
    assert last.result.messages[1:] == (Message("user", QUESTION), told(prompt.TIME_LIMIT_TEXT), kept(ANSWER))
    assert (last.result.termination, last.result.tool_call_count) == ("timeout", 0)


def test_the_answer_after_the_time_limit_is_bounded_too() -> None:
    result, _, engine, _ = play([search("a"), *[turn("", "no")] * 5], Limits(seconds=50), tool_seconds=99)
    late = engine.requests[1:]
    assert [request.sampling.max_tokens for request in late] == [4_000, 4_000]
    assert (result.termination, result.prediction) == ("timeout", "")


def test_at_a_limit_an_answer_goes_before_a_call() -> None:
    both = ANSWER + "\n" + search("b").partition("</think>")[2]
    result, _, _, tools = play([search("a"), both], Limits(turns=1))
    assert (result.termination, result.prediction, len(tools.calls)) == ("answered_max_steps", "1916", 1)
    result, _, _, tools = play([search("a"), both, ANSWER])
    assert len(tools.calls) == 2


def test_a_whole_answer_is_kept_where_only_what_follows_it_runs_in_circles() -> None:
    result, events, _, _ = play([ANSWER + "\n" + "Wait, I should check the year again. " * 60])
    assert dropped(events) == []
    assert (result.prediction, result.termination) == ("1916", "answered")


def test_a_cut_call_is_never_run_and_a_cut_answer_is_marked() -> None:
    half = 'ok\n</think>\n<tool_call>\n{"name": "visit", "arguments": {"url": ["https://example.org/annu'
    result, events, _, tools = play([(half, "length"), ("ok\n</think>\n<answer>It was 19", "length")])
    assert dropped(events) == [(1, 1, "output limit")]
    assert tools.calls == []
    assert (result.prediction, result.answer_cut) == ("It was 19", True)


def test_a_prompt_that_leaves_no_room_is_never_sampled_from() -> None:
    result, events, engine, _ = play([ANSWER], n_ctx=512)
    assert engine.requests == []
    assert result.termination == "token_limit_no_answer"
    assert [e.error.split(": ", 1)[1] for e in events if isinstance(e, Failed)] == [
        "no room is left to think and answer: shorten the question, or open a larger window with --context"
    ]


def test_each_try_has_a_seed_of_its_own_and_the_same_run_the_same_seeds() -> None:
    replies: list[str | tuple[str, str]] = ["bad", search("a"), ANSWER]
    first, second = (
        [request.sampling.seed for request in play(replies, sampling=Sampling(seed=seed))[2].requests]
        for seed in (7, 8)
    )
    again = [request.sampling.seed for request in play(replies, sampling=Sampling(seed=7))[2].requests]
    assert len({*first, *second}) == 6
    assert first == again


def test_a_greedy_retry_is_not_greedy() -> None:
    _, _, engine, _ = play(["bad", ANSWER], sampling=Sampling(temperature=0))
    assert [request.sampling.temperature for request in engine.requests] == [0, GREEDY_RETRY_TEMPERATURE]


def test_an_engine_that_fails_ends_the_run_with_what_it_has() -> None:
    class Broken(ScriptedEngine):
        def generate(self, request: Request) -> ScriptedGeneration:
            raise EngineError("no memory for the batch; lower --context")

    events = list(Agent(Broken([]), NotedTools(), Config(TODAY)).run(QUESTION))
    assert events[-2] == Failed(1, "no memory for the batch; lower --context")
    assert isinstance(events[-1], Finished)
    assert events[-1].result.termination == "llm_error"


def test_ctrl_c_gives_the_record_and_is_raised_again() -> None:
    class Interrupted(NotedTools):
        def call(self, call: ToolCall, question: str) -> ToolResult:
            raise KeyboardInterrupt

    run = Agent(ScriptedEngine([search("a")]), Interrupted(), Config(TODAY)).run(QUESTION)
    events: list[Event] = []
    with pytest.raises(KeyboardInterrupt):
        events.extend(run)
    last = events[-1]
    assert isinstance(last, Finished)
    assert (last.result.termination, last.result.turns) == ("interrupted", 1)


def test_what_streams_by_is_the_reply_without_its_tags() -> None:
    _, events, _, _ = play([search("a"), ANSWER])
    shown = [(e.kind, e.text) for e in events if isinstance(e, Streamed)]
    thinking = "".join(text for kind, text in shown if kind == "thinking")
    assert "I search.\nIt says 1916.\n" in thinking.replace("\n\n", "\n") + "\n"
    assert "".join(text for kind, text in shown if kind == "answer") == "1916"


def test_attempts_say_how_much_of_the_window_is_taken() -> None:
    _, events, engine, _ = play([ANSWER])
    started = next(e for e in events if isinstance(e, AttemptStarted))
    assert (started.turn, started.attempt, started.n_ctx) == (1, 1, 1_000_000)
    assert started.prompt_tokens == len(engine.requests[0].prompt)


# -- the window -------------------------------------------------------------------------------------------------------


ASKS = "provide the entire final answer in `<answer></answer>` tags now."


class LongTools(NotedTools):
    """Tools whose replies are long, in two scripts."""

    def call(self, call: ToolCall, question: str) -> ToolResult:
        result = super().call(call, question)
        return replace(result, text=f"{result.text} " + "Lit in 1916. 灯塔点亮。 " * 50)


def play_long(
    replies: list[str],
    n_ctx: int,
    policy: window.Policy | None = None,
    limits: Limits = Limits(),  # noqa: B008  (frozen)
) -> tuple[RunResult, list[Event], ScriptedEngine]:
    """A run with long tool replies, whose model answers when it is asked to, and else goes on in its script."""

    def script() -> Iterator[str]:
        for reply in [*replies, ANSWER]:
            yield reply if ASKS not in bytes(engine.requests[-1].prompt).decode() else ANSWER

    engine = ScriptedEngine(script(), n_ctx=n_ctx)
    config = Config(TODAY, limits=limits, context_policy=policy)
    events = list(Agent(engine, LongTools(), config, lambda: 0.0).run(QUESTION))
    last = events[-1]
    assert isinstance(last, Finished)
    return last.result, events, engine


def rambling(words: int) -> str:
    return " ".join(f"想{n * 7919 % 1009}w" for n in range(words))


def test_a_small_window_folds_its_oldest_replies_and_the_run_goes_on() -> None:
    replies = [visit(PAGE.url), *(search(f"灯塔 {n}") for n in range(29))]
    result, events, engine = play_long(replies, n_ctx=20_000)
    folds = [event for event in events if isinstance(event, Folded)]
    assert (result.termination, result.prediction, result.turns) == ("answered", "1916", 31)
    assert len(folds) >= 2
    assert result.messages[3].content == (
        f"<tool_response>\nThe useful information in {PAGE.url} for user goal year was left out here to save room "
        f"({folds[0].folds[0].tokens:,} tokens).\n</tool_response>"
    )
    assert result.messages[:3] == (SYSTEM, Message("user", QUESTION), kept(visit(PAGE.url)))
    assert [m for m in result.messages if m.role == "assistant"] == [kept(reply) for reply in [*replies, ANSWER]]
    assert result.messages[-2].content.startswith("<tool_response>\nhits for 灯塔 28 Lit in 1916. 灯塔点亮。")
    assert result.sources == (Source(PAGE.url, "Kereon", "ab12"),)
    most = 20_000 - reserve(20_000)
    assert all(event.before > most and event.after <= most * 3 // 4 for event in folds)
    assert all(len(request.prompt) <= most for request in engine.requests)


def test_the_cost_of_folding_is_what_the_engine_evaluated_beyond_every_token_once() -> None:
    replies = [search(f"灯塔 {n}") for n in range(30)]
    wide, _, once = play_long(replies, n_ctx=1_000_000)
    result, events, engine = play_long(replies, n_ctx=20_000)
    folds = [event for event in events if isinstance(event, Folded)]
    assert (result.fold_count, result.folded_reply_count, result.refilled_token_count) == (
        len(folds),
        sum(len(event.folds) for event in folds),
        sum(event.refilled for event in folds),
    )
    beyond = engine.stats.evaluated_tokens - once.stats.evaluated_tokens
    twice = sum(  # the scripted cache does not keep what was generated: it is in the next prompt's count, too
        event.usage.generated_tokens
        for event in events
        if isinstance(event, Replied) and event.turn in [fold.turn for fold in folds]
    )
    assert 0 < beyond <= once.stats.evaluated_tokens
    assert result.refilled_token_count == beyond + twice
    assert (wide.fold_count, wide.refilled_token_count) == (0, 0)


def test_between_two_folds_every_prompt_extends_the_last_one() -> None:
    _, events, engine = play_long([search(f"{n}") for n in range(30)], n_ctx=20_000)
    folded_before = {event.turn + 1 for event in events if isinstance(event, Folded)}
    pairs = enumerate(zip(engine.requests, engine.requests[1:], strict=False), 2)
    assert {turn for turn, (a, b) in pairs if b.prompt[: len(a.prompt)] != a.prompt} == folded_before


def test_a_call_whose_reply_was_folded_may_be_made_again() -> None:
    replies = [*(search(f"{n}") for n in range(25)), search("0"), search("24"), search("25")]
    result, events, _ = play_long(replies, n_ctx=20_000)
    assert dropped(events) == [(27, 1, "repeated call")]
    assert (result.dedup_count, result.tool_call_count) == (1, 27)


def test_when_folding_frees_no_more_the_answer_is_asked_for() -> None:
    result, events, engine = play_long([search(f"{n}", f"{n}: {rambling(200)}") for n in range(30)], n_ctx=20_000)
    assert [event.turn for event in events if isinstance(event, Folded)] != []
    assert [event.limit for event in events if isinstance(event, LimitReached)] == ["tokens"]
    assert (result.termination, result.prediction) == ("answered_token_limit", "1916")
    assert result.messages[-2] == told(prompt.TOKEN_LIMIT_TEXT)
    assert result.messages[:2] == (SYSTEM, Message("user", QUESTION))
    assert engine.requests[-1].sampling.max_tokens >= reserve(20_000) // 2


def test_the_answer_policy_folds_nothing_however_small_the_window() -> None:
    result, events, _ = play_long([search(f"{n}") for n in range(30)], n_ctx=20_000, policy="answer")
    assert not [event for event in events if isinstance(event, Folded)]
    assert result.termination == "answered_token_limit"


@pytest.mark.parametrize("limits", [Limits(tokens=8_000), Limits(turns=9)])
def test_a_limit_that_no_fold_moves_folds_nothing(limits: Limits) -> None:
    result, events, _ = play_long([search(f"{n}") for n in range(30)], 20_000, limits=limits)
    assert not [event for event in events if isinstance(event, Folded)]
    assert result.prediction == "1916"


@pytest.mark.parametrize("n_ctx", [4_096, 6_000, 9_000, 20_000])
@pytest.mark.parametrize("policy", ["answer", "fold"])
def test_no_turn_has_room_for_a_handful_of_tokens_and_a_full_window_ends_in_an_answer(
    n_ctx: int, policy: window.Policy
) -> None:
    thoughts = [f"{n}: {rambling(120 if n % 3 else 5)}" for n in range(60)]
    result, events, engine = play_long([search(f"{n}", thought) for n, thought in enumerate(thoughts)], n_ctx, policy)
    assert (result.termination, result.prediction) == ("answered_token_limit", "1916")
    assert not [event for event in events if isinstance(event, Failed)]
    assert min(request.sampling.max_tokens for request in engine.requests) >= min(256, reserve(n_ctx) // 4)
    assert result.messages[:2] == (SYSTEM, Message("user", QUESTION))


def test_a_full_window_gives_up_its_newest_turn_rather_than_the_answer() -> None:
    opening = len(play([ANSWER])[2].requests[0].prompt)
    n_ctx = opening + 600
    greedy = turn(
        "x" * (600 - reserve(n_ctx) // 2 - 120), '<tool_call>{"name": "search", "arguments": {"query": ["q"]}}'
    )
    result, events, _, _ = play([greedy, ANSWER], n_ctx=n_ctx)
    assert not [event for event in events if isinstance(event, Failed)]
    assert result.messages == (SYSTEM, Message("user", QUESTION), told(prompt.TOKEN_LIMIT_TEXT), kept(ANSWER))
    assert (result.termination, result.prediction) == ("answered_token_limit", "1916")


def test_citations_rest_on_what_was_read_also_where_the_reply_is_folded(tmp_path: Path) -> None:
    text = "The Kereon lighthouse off Ushant was first lit in 1916. 克雷翁灯塔高41米。"

    class Pages(LongTools):
        def call(self, call: ToolCall, question: str) -> ToolResult:
            result = super().call(call, question)
            page = replace(PAGE, text=text)
            readings = tuple(replace(reading, page=page) for reading in result.readings)
            return replace(result, readings=readings)

    said = turn("ok", "<answer>The Kereon lighthouse was first lit in 1916.</answer>")
    engine = ScriptedEngine([visit(PAGE.url), *(search(f"{n}") for n in range(19)), said], n_ctx=20_000)
    with Journal.create(tmp_path, QUESTION, datetime(2026, 3, 1, tzinfo=UTC)) as journal:
        for event in Agent(engine, Pages(), Config(TODAY), lambda: 0.0).run(QUESTION):
            journal.write(event)
    records = list(read(journal.path))
    folded = next(record for record in records if record.get("event") == "Folded")
    assert folded["folds"][0]["call"] == {"urls": [PAGE.url], "goal": "year"}
    made = report(records)
    assert [(cited.mark, cited.quotes[0].url) for cited in made.citations.sentences] == [("supported", PAGE.url)]


# -- the answer now ---------------------------------------------------------------------------------------------------


class Watched(ScriptedEngine):
    """A scripted engine that says when it was cancelled."""

    def __init__(self, replies: list[str]) -> None:
        super().__init__(replies)
        self.cancelled = 0

    def cancel(self) -> None:
        self.cancelled += 1
        super().cancel()


def hurried(replies: list[str], when: Callable[[Event], bool]) -> tuple[RunResult, list[Event], Watched]:
    """A run whose answer is asked for at the first event of which `when` is true."""
    engine = Watched(replies)
    agent = Agent(engine, NotedTools(), Config(TODAY), lambda: 0.0)
    events: list[Event] = []
    for event in agent.run(QUESTION):
        if not any(map(when, events)) and when(event):
            agent.answer_now()
        events.append(event)
    last = events[-1]
    assert isinstance(last, Finished)
    return last.result, events, engine


def is_thinking_of(turn_text: str) -> Callable[[Event], bool]:
    return lambda event: isinstance(event, Streamed) and turn_text in event.text


def test_asked_for_in_the_middle_of_a_turn_the_answer_comes_and_the_turn_leaves_no_trace() -> None:
    long = search("b", "乙 " + rambling(200))
    result, events, engine = hurried([search("a"), long, ANSWER], is_thinking_of("乙"))
    assert dropped(events) == [(2, 1, "answer now")]
    assert [(e.turn, e.limit, e.gone) for e in events if isinstance(e, LimitReached)] == [(2, "asked", 0)]
    assert result.messages[2:] == (
        kept(search("a")),
        told("hits for a"),
        told(
            "You've reached the maximum number of tool calls. "
            "Based on the information and knowledge you have gathered, "
            "please provide the entire final answer in `<answer></answer>` tags now."
        ),
        kept(ANSWER),
    )
    assert (result.termination, result.prediction, result.parse_error_count) == ("answered_on_request", "1916", 0)
    assert engine.stats.generated_tokens < len(search("a") + long + ANSWER)
    first, second = engine.requests[1:]
    assert (
        second.prompt[: len(first.prompt) - len("<|im_start|>assistant\n<think>\n")]
        == (first.prompt[: len(first.prompt) - len("<|im_start|>assistant\n<think>\n")])
    )


def test_asked_for_before_anything_is_read_the_question_is_answered() -> None:
    result, _, engine = hurried([search("a"), ANSWER], lambda event: isinstance(event, AttemptStarted))
    assert result.messages[1:] == (Message("user", QUESTION), told(prompt.TURN_LIMIT_TEXT), kept(ANSWER))
    assert engine.stats.generated_tokens == len(ANSWER)  # what was cancelled before it began has generated nothing


def test_asked_for_during_a_tool_call_the_answer_comes_after_it_with_what_it_brought() -> None:
    result, _, _ = hurried([search("a"), ANSWER], lambda event: event.__class__.__name__ == "ToolCalled")
    assert result.messages[3:] == (told("hits for a"), told(prompt.TURN_LIMIT_TEXT), kept(ANSWER))
    assert result.tool_call_count == 1


def test_asking_again_while_the_answer_is_written_costs_nothing() -> None:
    engine = Watched([search("a"), ANSWER])
    agent = Agent(engine, NotedTools(), Config(TODAY), lambda: 0.0)
    for event in agent.run(QUESTION):
        if isinstance(event, Streamed | LimitReached | AttemptStarted):
            agent.answer_now()
    assert isinstance(event, Finished)
    assert (event.result.termination, event.result.prediction, event.result.turns) == ("answered_on_request", "1916", 2)
    assert engine.cancelled == 1


def test_a_model_that_goes_on_calling_is_given_two_tries() -> None:
    result, events, engine = hurried([search("a"), *[search("b")] * 5], is_thinking_of("I search"))
    assert dropped(events)[1:] == [(2, 1, "malformed")]
    assert [request.sampling.max_tokens for request in engine.requests[1:]] == [4_000, 4_000]
    assert (result.termination, result.prediction) == ("no_answer_on_request", "")


def test_what_was_asked_of_one_run_is_not_asked_of_the_next() -> None:
    engine = Watched([search("a"), ANSWER, search("a"), ANSWER])
    agent = Agent(engine, NotedTools(), Config(TODAY), lambda: 0.0)
    agent.answer_now()
    endings = []
    for asks in (True, False):
        for event in agent.run(QUESTION):
            if asks and isinstance(event, AttemptStarted):
                agent.answer_now()
            if isinstance(event, Finished):
                endings.append(event.result.termination)
    assert endings == ["answered_on_request", "answered"]


def test_the_answer_may_be_asked_for_from_another_thread() -> None:
    engine = Watched([search("a", rambling(3_000)), ANSWER])
    agent = Agent(engine, NotedTools(), Config(TODAY), lambda: 0.0)
    asking = threading.Thread(target=agent.answer_now)
    for event in agent.run(QUESTION):
        if isinstance(event, Streamed) and not asking.ident:
            asking.start()
            asking.join()
    assert isinstance(event, Finished)
    assert event.result.termination == "answered_on_request"
