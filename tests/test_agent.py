"""The loop against goldens written by hand from the protocol: the message list, the events and the record of a run."""

from __future__ import annotations

from datetime import date

import pytest

from venus_edge.agent import GREEDY_RETRY_TEMPERATURE, Agent, Config
from venus_edge.engine import Request, Sampling
from venus_edge.engine.scripted import ScriptedEngine, ScriptedGeneration
from venus_edge.errors import EngineError
from venus_edge.events import AttemptDropped, AttemptStarted, Event, Failed, Finished, LimitReached, Streamed
from venus_edge.guards import Limits
from venus_edge.protocol import prompt
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
    assert [e for e in events if isinstance(e, LimitReached)] == [LimitReached(2, "turns")]
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
    assert [e for e in events if isinstance(e, LimitReached)] == [LimitReached(1, "tokens")]
    assert result.termination == termination


def test_the_time_limit_asks_for_the_answer_and_is_named_timeout() -> None:
    result, events, _, _ = play([search("a"), search("b"), ANSWER], Limits(seconds=50), tool_seconds=30)
    assert [e for e in events if isinstance(e, LimitReached)] == [LimitReached(2, "time")]
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
