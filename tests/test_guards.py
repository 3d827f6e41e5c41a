"""Loops are seen while they stream and ordinary text is left alone; limits and room are plain arithmetic."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.runs import released
from venus_edge.guards import Limits, LoopWatch, before_loop, find_loop, is_repeated, reserve, room
from venus_edge.values import SearchCall, ToolCall, VisitCall

PARAGRAPH = "".join(chr(97 + i % 26) + str(i) for i in range(250))
TABLE = "| Station | Year |\n| --- | --- |\n" + "".join(f"| S{i} | {1800 + i} |\n" for i in range(40))
LEDGER = [
    f"The {word} ledger was opened by the port engineers in the year of the {word} survey. " for word in "ABCDEFG"
]

LOOPS = {
    "sentence": "Wait, I should check the year again. " * 60,
    "inside the thought": "Let me check the tide table again. " * 200 + "\n</think>\n<answer>Not found.</answer>",
    "long period": PARAGRAPH * 5,
    "very long period": "".join(f"{i} lamps and {i * 7} buoys; " for i in range(200)) * 4,
    "words": "found: lamps, " + "buoys, " * 120,
    "one word": "no " * 400,
    "two sentences in turn": "Is it 1807? No, the ledger says 1806. Is it 1806? No, the ledger says 1807. " * 30,
    "lines": "Let me search again.\n\n" * 80,
    "letters": "a" * 900,
    "digits": "0.1" + "3" * 3_000,
    "signs": "!" * 3_000,
    "line breaks": "\n" * 3_000,
    "table row": "| unknown | unknown |\n" * 200,
    "call": '<tool_call>\n{"name": "search", "arguments": {"query": ["Brest gauge"]}}\n</tool_call>\n' * 20,
    "counting": "".join(f"Let me look at page {i} of the report again. " for i in range(400)),
    "Chinese sentence": "让我再检查一下验潮站的年份。" * 60,
    "Chinese words": "灯塔、" * 200,
    "Chinese laughter": "哈" * 400,
    "Chinese counting": "".join(f"第{i}次尝试：我再搜索一次验潮站的年份，但是结果没有帮助。" for i in range(300)),
    "after an honest start": " ".join(LEDGER) + TABLE + "So the year is 1807. Let me verify that. " * 40,
}

NO_LOOPS = {
    "table": TABLE,
    "long table": "".join(f"| {year} | {6900 + year % 97} | not available |\n" for year in range(1500, 2020)),
    "table of unknowns": "".join(f"| Station {i} | n/a | n/a | n/a |\n" for i in range(200)),
    "identical table rows": "| n/a | n/a | n/a |\n" * 40,
    "ruler": "Result\n" + "-" * 300 + "\n1807",
    "ruler at the end": "Result 1807\n" + "=" * 300,
    "dots at the end": "The rest is in the ledger" + "." * 300,
    "table rules": "| Station |\n" + ("| " + "--- | " * 60 + "\n") * 3,
    "spaces": "def f():\n" + " " * 400 + "return 1",
    "contents": "".join(f"Chapter {i} {'.' * 60} {i * 7}\n" for i in range(60)),
    "numbered list": "".join(f"{i}. Station number {i}, opened in {1800 + i}, still working\n" for i in range(300)),
    "bullet list": "".join(f"- {name}: {1800 + i}\n" for i, name in enumerate(["Brest", "Cadiz", "Cuxhaven"] * 30)),
    "addresses": "".join(f"[{i}] https://example.org/reports/2019/annual/station-{i * 7}.html\n" for i in range(200)),
    "code": "".join(f"    level[{i}] = a * cos(t + phase[{i}])\n" for i in range(200)),
    "numbers": "0 1 " * 200,
    "a sentence five times": "I should check the year of the Brest gauge again. " * 5 + "It is 1807.",
    "a draft, then the answer": " ".join(LEDGER) + "</think><answer>" + " ".join(LEDGER) + "</answer>",
    "a name often": "".join(f"{w}: World health statistics 2019: monitoring health for the SDGs. " for w in LEDGER)
    + "So 2019.",
    "Chinese list": "".join(f"{i}、第{i}号验潮站，建于{1800 + i}年\n" for i in range(300)),
    "Chinese table": "| 站点 | 年份 |\n" + "".join(f"| 验潮站{i} | 未知 |\n" for i in range(200)),
    "empty": "",
}


@pytest.mark.parametrize("text", LOOPS.values(), ids=LOOPS.keys())
def test_a_loop_is_seen_before_it_has_cost_much(text: str) -> None:
    loop = find_loop(text)
    assert loop is not None
    assert loop.certain <= min(len(text), 12_000) or loop.certain - loop.start <= 3 * loop.period + 64


@pytest.mark.parametrize("text", NO_LOOPS.values(), ids=NO_LOOPS.keys())
def test_ordinary_text_is_no_loop(text: str) -> None:
    assert find_loop(f"ok\n</think>\n\n<answer>\n{text}\n</answer>") is None
    assert find_loop(text) is None


def test_a_loop_of_a_sentence_is_seen_within_two_hundred_tokens() -> None:
    for name in ("sentence", "words", "lines", "Chinese sentence", "two sentences in turn"):
        loop = find_loop(LOOPS[name])
        assert loop is not None
        assert loop.certain <= 800


@given(st.sampled_from(sorted(LOOPS)), st.lists(st.integers(1, 700), min_size=1, max_size=60))
def test_a_loop_is_seen_at_the_same_place_however_the_text_is_cut(name: str, sizes: list[int]) -> None:
    text, watch, at = LOOPS[name], LoopWatch(), 0
    for size in sizes * (len(text) // sum(sizes) + 1):
        watch.feed(text[at : at + size])
        at += size
    assert watch.loop == find_loop(text)


@given(st.text(max_size=300))
def test_any_text_can_be_looked_at(text: str) -> None:
    find_loop(text)
    before_loop(text)


def test_of_a_loop_the_first_round_is_kept() -> None:
    round_ = "Wait, I should check the year again, in the ledger. "
    assert before_loop(round_ * 60) == round_
    assert before_loop("no loop") == "no loop"


def test_the_official_rule_holds_for_the_end_of_a_reply() -> None:
    tail = "Let me look at the harbour ledger of that year, then. "
    text = "".join(f"{word * 40} {tail}" for word in "abcdef")
    assert find_loop(text) is not None
    assert find_loop(text + "So it is 1807, as the engineers wrote themselves at last.") is None


def test_a_million_characters_in_pieces_of_a_token_are_looked_at_in_passing() -> None:
    """A look that grew with the reply would make this test minutes long."""
    watch, text = LoopWatch(), "".join(f"{i * 7919 % 1000003:x} " for i in range(150_000))
    for at in range(0, len(text), 4):
        watch.feed(text[at : at + 4])
    assert watch.loop is None


def test_no_released_turn_is_a_loop(shared: Path) -> None:
    turns = [turn for run in released(shared) for turn in run.turns()]
    assert turns
    assert [turn for turn in turns if find_loop(turn)] == []


# -- calls, limits, room ----------------------------------------------------------------------------------------------


def test_a_call_is_repeated_if_tool_and_arguments_are_the_same() -> None:
    earlier: list[ToolCall] = [SearchCall(("a",)), VisitCall(("https://example.org/a",), "x")]
    calls: list[ToolCall] = [
        SearchCall(("a",)),
        SearchCall(("a", "b")),
        VisitCall(("https://example.org/a",), "y"),
        *earlier[1:],
    ]
    assert [is_repeated(call, earlier) for call in calls] == [True, False, False, True]


def test_the_official_limits_are_the_defaults() -> None:
    assert Limits() == Limits(turns=200, seconds=18_000.0, tokens=230_000, tries=5)


@pytest.mark.parametrize(
    ("turns", "seconds", "tokens", "limit"),
    [
        (0, 0.0, 500, None),
        (199, 17_999.0, 230_000, None),
        (200, 0.0, 500, "turns"),
        (5, 18_000.0, 500, "time"),
        (5, 0.0, 230_001, "tokens"),
        (200, 18_000.0, 230_001, "time"),
        (200, 0.0, 230_001, "tokens"),
    ],
)
def test_the_limit_that_is_reached(turns: int, seconds: float, tokens: int, limit: str | None) -> None:
    assert Limits().passed(turns, seconds, tokens, n_ctx=261_000) == limit


def test_the_window_keeps_room_for_the_answer() -> None:
    windows = {261_000: 26_100, 131_072: 13_107, 32_768: 3_276, 16_384: 2_000, 8_192: 1_024, 4_096: 512, 512: 64}
    assert {n: reserve(n) for n in windows} == windows
    assert Limits().window(261_000) == 230_000
    assert Limits().window(4_096) == 3_584


@pytest.mark.parametrize(
    ("n_ctx", "rooms"),
    [
        (512, {300: (179, 211), 448: (31, 63), **dict.fromkeys((449, 510, 511, 512, 600), (0, 0))}),
        (16_384, {10_000: (5_383, 6_383), 14_384: (999, 1_999), 14_385: (0, 0), 16_383: (0, 0)}),
        (32_768, {29_492: (1_637, 3_275), 29_493: (0, 0), 32_768: (0, 0)}),
        (131_072, {100_000: (15_000, 15_000), 117_965: (6_553, 13_106), 117_966: (0, 0), 129_072: (0, 0)}),
    ],
)
def test_a_prompt_that_leaves_less_than_the_reserve_is_never_sampled_from(
    n_ctx: int, rooms: dict[int, tuple[int, int]]
) -> None:
    assert {n: (room(n_ctx, n, 15_000), room(n_ctx, n, 15_000, final=True)) for n in rooms} == rooms


@given(st.integers(256, 300_000), st.integers(0, 300_000))
def test_no_turn_starts_with_room_for_a_few_tokens(n_ctx: int, prompt_tokens: int) -> None:
    tokens = room(n_ctx, prompt_tokens, max_tokens=15_000)
    assert tokens == 0 or tokens >= reserve(n_ctx) // 2 - 1
    assert prompt_tokens + tokens + reserve(n_ctx) // 2 < n_ctx or tokens == 0
    assert room(n_ctx, prompt_tokens, 15_000, final=True) >= tokens
