"""The live view shows the same, however the text is cut into pieces."""

from __future__ import annotations

from itertools import groupby, pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protocol.runs import released
from venus_edge.protocol.parse import parse
from venus_edge.protocol.stream import Kind, Splitter
from venus_edge.values import Answer

CALL = '{"name": "search", "arguments": {"query": ["灯塔"]}}'


def classify(text: str) -> list[tuple[Kind, str]]:
    """The stretches of a whole turn."""
    splitter = Splitter()
    return [*splitter.feed(text), *splitter.end()]


def joined(stretches: list[tuple[Kind, str]]) -> list[tuple[Kind, str]]:
    return [(kind, "".join(text for _, text in group)) for kind, group in groupby(stretches, key=lambda pair: pair[0])]


def cut(pieces: list[str]) -> list[tuple[Kind, str]]:
    splitter = Splitter()
    return joined([stretch for piece in pieces for stretch in splitter.feed(piece)] + splitter.end())


TURNS: dict[str, tuple[str, list[tuple[Kind, str]]]] = {
    "call": (
        f"prose\n</think>\n\n<tool_call>\n{CALL}\n</tool_call>",
        [("thinking", "prose\n"), ("text", "\n\n"), ("call", f"\n{CALL}\n")],
    ),
    "answer": (
        "<think>\nprose\n</think>\n<answer>1807</answer>\n",
        [("thinking", "\nprose\n"), ("text", "\n"), ("answer", "1807"), ("text", "\n")],
    ),
    "tags in the thought": (
        "use <answer></answer> or <tool_call>\n</think>ok",
        [("thinking", "use <answer></answer> or <tool_call>\n"), ("text", "ok")],
    ),
    "other tags": ("a <b> < c</think>", [("thinking", "a <b> < c")]),
    "an unfinished tag": ("prose </thi", [("thinking", "prose </thi")]),
    "capitals": ("prose</THINK><Answer>1807", [("thinking", "prose"), ("answer", "1807")]),
    "tags in the answer": (
        "</think><answer>a <tool_call> b</answer>",
        [("answer", "a <tool_call> b")],
    ),
    "nothing": ("", []),
}


@pytest.mark.parametrize(("text", "stretches"), TURNS.values(), ids=TURNS.keys())
def test_a_turn_is_told_apart_without_its_tags(text: str, stretches: list[tuple[Kind, str]]) -> None:
    assert joined(classify(text)) == stretches
    assert cut(list(text)) == stretches


PARTS = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<answer>",
    "</answer>",
    "<",
    ">",
    "/",
    "think",
    "a",
    "\n",
    "灯",
]


@given(st.lists(st.sampled_from(PARTS), max_size=30).map("".join), st.lists(st.integers(0, 200), max_size=20))
def test_any_cut_gives_the_same(text: str, places: list[int]) -> None:
    edges = [0, *sorted(min(place, len(text)) for place in places), len(text)]
    assert cut([text[a:b] for a, b in pairwise(edges)]) == joined(classify(text))


def test_no_more_than_the_start_of_a_tag_is_held_back() -> None:
    splitter = Splitter()
    assert splitter.feed("prose < a") == [("thinking", "prose < a")]
    assert splitter.feed(" </tool_cal") == [("thinking", " ")]
    assert splitter.feed("l> and </thin") == [("thinking", "</tool_call> and ")]
    assert splitter.feed("g") == [("thinking", "</thing")]


def test_released_turns_are_told_apart_as_they_are_parsed(shared: Path) -> None:
    for run in released(shared):
        for turn in run.turns():
            shown = dict(joined(classify(turn)))
            reply = parse(turn)
            assert shown["thinking"].strip() == reply.thought
            assert ("answer" in shown) == isinstance(reply.action, Answer)
            assert ("call" in shown) != isinstance(reply.action, Answer)
