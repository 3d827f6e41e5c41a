"""The scripted engine behaves as the real one where it matters to what uses an engine."""

from __future__ import annotations

import pytest

from venus_edge.engine import Engine, Request, Sampling
from venus_edge.engine.scripted import ScriptedEngine
from venus_edge.errors import ContextFull, EngineError
from venus_edge.protocol import Piece, Trust

PIECES = [Piece("Frage 中", Trust.OUTSIDE)]


def request(engine: Engine, stop: tuple[str, ...] = (), max_tokens: int = 1_000) -> Request:
    return Request(engine.tokenize(PIECES), Sampling(max_tokens=max_tokens), stop)


def test_replies_come_in_order_and_are_recorded() -> None:
    engine = ScriptedEngine(["eins", ("zwei", "length")], n_ctx=99, chunk=2)
    first, second = engine.generate(request(engine)), None
    assert (list(first), first.finish) == (["ei", "ns"], "stop")
    second = engine.generate(request(engine))
    assert ("".join(second), second.finish) == ("zwei", "length")
    assert [list(asked.prompt) for asked in engine.requests] == [list("Frage 中".encode())] * 2
    with pytest.raises(EngineError, match="no reply number 3"):
        engine.generate(request(engine))


def test_a_stop_string_is_never_shown() -> None:
    engine = ScriptedEngine(["a<tool_response>b", "a<tool_"], chunk=3)
    first = engine.generate(request(engine, ("<tool_response>",)))
    assert ("".join(first), first.finish) == ("a", "stop")
    assert "".join(engine.generate(request(engine, ("<tool_response>",)))) == "a<tool_"


def test_the_output_limit_cuts_and_no_character_in_half() -> None:
    engine = ScriptedEngine(["中文字"])
    generation = engine.generate(request(engine, max_tokens=7))
    assert ("".join(generation), generation.finish) == ("中文", "length")
    assert generation.usage.generated_tokens == 7


def test_closed_and_cancelled_generations_say_so() -> None:
    engine = ScriptedEngine(["abcdef", "abcdef"], chunk=1)
    first = engine.generate(request(engine))
    next(iter(first))
    first.close()
    second = engine.generate(request(engine))
    next(iter(second))
    engine.cancel()
    assert (list(second), first.finish, second.finish) == ([], "cancelled", "cancelled")


def test_it_counts_as_a_cache_would() -> None:
    engine = ScriptedEngine(["x", "y"])
    list(engine.generate(request(engine)))
    second = engine.generate(Request([*engine.tokenize(PIECES), 1, 2], Sampling()))
    assert (second.usage.reused_tokens, second.usage.evaluated_tokens) == (9, 2)


def test_a_prompt_as_long_as_the_window_is_refused() -> None:
    engine = ScriptedEngine(["x"], n_ctx=9)
    with pytest.raises(ContextFull):
        engine.generate(request(engine))
