"""Streamed text: whole characters, and nothing that a stop string may still swallow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from venus_edge.engine.text import TextStream

STOP = "<tool_response>"


def streamed(pieces: list[bytes], stop: tuple[str, ...] = (STOP,), cut: bool = False) -> tuple[list[str], bool]:
    stream = TextStream(stop)
    out = []
    for piece in pieces:
        out.append(stream.feed(piece))
        if stream.stopped:
            break
    return [*out, stream.end(cut)], stream.stopped


def test_a_character_comes_when_its_last_byte_does() -> None:
    data = "布".encode()
    assert streamed([data[:1], data[1:2], data[2:] + b"!"]) == (["", "", "布!", ""], False)


def test_of_a_character_cut_in_the_middle_nothing_is_shown() -> None:
    data = "a布".encode()
    assert streamed([data[:3]], cut=True) == (["a", ""], False)
    assert streamed([data[:3]]) == (["a", "\ufffd"], False)


def test_a_beginning_of_the_stop_string_is_held_until_it_is_none() -> None:
    assert streamed([b"a <tool_", b"call>"]) == (["a ", "<tool_call>", ""], False)
    assert streamed([b"a <tool_", b"resp"]) == (["a ", "", "<tool_resp"], False)
    assert streamed([b"<<tool_res", b"ponse> b"]) == (["<", "", ""], True)


def test_the_first_of_several_stop_strings_ends_the_text() -> None:
    assert streamed([b"x END y STOP z"], ("STOP", "END")) == (["x ", ""], True)
    assert streamed([b"abab", b"c"], ("abc",)) == (["ab", "", ""], True)


@given(
    st.lists(st.sampled_from(["a", "布", "👩", "<", "<tool", "_response>", STOP, "\n"]), max_size=12).map("".join),
    st.lists(st.integers(0, 60), max_size=8),
)
@pytest.mark.parametrize("stops", [(STOP,), ("a<", "\n\n", STOP), ()])
def test_however_the_bytes_are_cut_the_text_is_the_same(stops: tuple[str, ...], text: str, cuts: list[int]) -> None:
    data = text.encode()
    ends = sorted({cut for cut in cuts if cut < len(data)} | {len(data)})
    pieces = [data[a:b] for a, b in zip([0, *ends], ends, strict=False)]
    ats = [at for at in (text.find(stop) for stop in stops) if at >= 0]
    expected = text[: min(ats)] if ats else text
    out, stopped = streamed(pieces, stops)
    assert "".join(out) == expected
    assert stopped == bool(ats)
