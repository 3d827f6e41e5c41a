"""The loop around the cache, on a model that is a list: what is shown, and that the record stays true when it fails."""

from __future__ import annotations

import pytest

from tests.engine.fakes import END, Choices, ListModel
from venus_edge.engine import Request, Sampling, Stats
from venus_edge.engine.generation import LocalGeneration, Stopped
from venus_edge.engine.kv import Cached
from venus_edge.errors import EngineError


def generation(
    model: ListModel, cached: Cached, prompt: list[int], choices: list[int], limit: int = 100, batch: int = 4
) -> LocalGeneration:
    request = Request(prompt, Sampling(max_tokens=50), stop=("<tool_response>",))
    return LocalGeneration(model, cached, request, Choices(choices), Stats(), limit, batch)


def test_the_prompt_goes_in_batches_and_each_token_once() -> None:
    model, cached = ListModel({1: b"a", 2: b"b"}.__getitem__), Cached()
    first = generation(model, cached, [11, 12, 13, 14, 15, 16], [1, 2, END])
    assert (list(first), first.finish) == (["a", "b"], "stop")
    assert model.evaluated == [[11, 12, 13, 14], [15, 16], [1], [2]]
    second = generation(model, cached, [11, 12, 13, 14, 15, 16, 1, 2, 21], [END])
    assert (list(second), second.usage.reused_tokens, second.usage.evaluated_tokens) == ([], 8, 1)
    assert list(cached.ids) == model.positions


def test_half_characters_and_beginnings_of_stop_strings_wait() -> None:
    wide = "布".encode()
    pieces = {1: wide[:2], 2: wide[2:] + b" <tool_", 3: b"resp", 4: b"onse>more"}
    assert list(generation(ListModel(pieces.__getitem__), Cached(), [9], [1, 2, 3, END])) == ["布 ", "<tool_resp"]
    stopped = generation(ListModel(pieces.__getitem__), Cached(), [9], [1, 2, 3, 4])
    assert (list(stopped), stopped.finish) == (["布 "], "stop")


def test_a_memory_that_cannot_go_back_in_part_is_filled_again() -> None:
    model, cached = ListModel({1: b"a"}.__getitem__), Cached()
    model.rolls_back = False
    list(generation(model, cached, [11, 12, 13], [1, END]))
    again = generation(model, cached, [11, 12, 99], [END])
    list(again)
    assert (again.usage.reused_tokens, again.usage.evaluated_tokens) == (0, 3)
    assert list(cached.ids) == model.positions == [11, 12, 99]


@pytest.mark.parametrize("fails_at", [0, 3, 5, 7])
def test_after_a_failure_the_record_is_what_the_cache_holds(fails_at: int) -> None:
    model, cached = ListModel({1: b"a"}.__getitem__, (fails_at, EngineError("broken"))), Cached()
    failing = generation(model, cached, [11, 12, 13, 14, 15, 16], [1, 1, 1])
    with pytest.raises(EngineError, match="broken"):
        list(failing)
    assert list(cached.ids) == model.positions
    assert len(cached) == fails_at == failing.usage.evaluated_tokens
    assert failing.finish == "cancelled"


def test_an_interrupted_prompt_is_cancelled_and_the_record_is_true() -> None:
    model, cached = ListModel({1: b"a"}.__getitem__, (5, Stopped())), Cached()
    stopped = generation(model, cached, [11, 12, 13, 14, 15, 16], [1])
    assert (list(stopped), stopped.finish) == ([], "cancelled")
    assert list(cached.ids) == model.positions == [11, 12, 13, 14, 15]


def test_a_window_that_fills_up_ends_the_reply() -> None:
    model = ListModel({1: b"a"}.__getitem__)
    full = generation(model, Cached(), [11, 12, 13], [1] * 50, limit=5)
    assert (list(full), full.finish, len(model.positions)) == (["a"] * 3, "context", 5)


def test_closing_frees_the_chooser_and_is_final() -> None:
    model, choices = ListModel({1: b"a"}.__getitem__), Choices([1] * 9)
    request = Request([11], Sampling(), stop=())
    running = LocalGeneration(model, Cached(), request, choices, Stats(), 100, 4)
    next(iter(running))
    running.close()
    running.close()
    assert (choices.closed, running.finish, list(running)) == (True, "cancelled", [])
