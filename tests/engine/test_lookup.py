"""Drafts come from what was there, and are made where they pay; nothing but the speed depends on them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engine.fakes import END, Choices, ListModel
from venus_edge.engine import Request, Sampling, Stats
from venus_edge.engine.generation import LocalGeneration
from venus_edge.engine.kv import Cached
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.lookup import FAR, Lookup
from venus_edge.engine.options import EngineOptions
from venus_edge.engine.pace import MOST, Pace
from venus_edge.errors import EngineError

# -- what is drafted --------------------------------------------------------------------------------------------------


def test_a_draft_is_what_followed_the_last_three_ids() -> None:
    lookup = Lookup([1, 2, 3, 4, 5, 6, 9, 1, 2])
    assert lookup.draft(3, 2) == ([4, 5], 3)
    assert lookup.draft(7, 2) == ([], 0)


def test_the_last_place_counts_and_agreement_says_how_far_back() -> None:
    lookup = Lookup([8, 1, 2, 3, 4, 7, 9, 1, 2, 3, 5, 7, 9, 1, 2])
    assert lookup.draft(3, 3) == ([5, 7, 9], 5)
    same = [*range(50), *range(49)]
    assert Lookup(same).draft(49, 1) == ([0], 1 + FAR)


def test_a_round_that_reaches_the_end_goes_on() -> None:
    assert Lookup([7, 7, 7]).draft(7, 5)[0] == [7] * 5
    assert Lookup([1, 2, 3, 1, 2]).draft(3, 7)[0] == [1, 2, 3, 1, 2, 3, 1]


def test_what_was_cut_away_is_no_longer_found() -> None:
    cached = Cached()
    cached.extend([1, 2, 3, 4, 5])
    assert cached.lookup.draft(9, 4) == ([], 0)
    cached.cut(3)
    cached.extend([1, 2])
    assert cached.lookup.draft(3, 2)[0] == [1, 2]
    cached.cut(0)
    cached.extend([1, 2])
    assert cached.lookup.draft(3, 2) == ([], 0)


@given(st.lists(st.tuples(st.integers(0, 9), st.lists(st.integers(1, 3), max_size=8)), max_size=8), st.integers(1, 3))
def test_after_any_cuts_a_draft_followed_the_very_same_ids(steps: list[tuple[int, list[int]]], token: int) -> None:
    cached = Cached()
    for length, more in steps:
        cached.lookup.draft(token, 4)
        cached.cut(length)
        cached.extend(more)
    draft, agreed = cached.lookup.draft(token, 4)
    ids = [*cached.ids, token]
    if draft:  # of a place that was overwritten and cut away again nothing is known: a draft less
        same = [end for end in range(agreed, len(ids)) if ids[end - agreed : end] == ids[len(ids) - agreed :]]
        assert agreed >= 3
        assert draft[0] in [ids[end] for end in same]


# -- whether it pays --------------------------------------------------------------------------------------------------


def settled(single: float, each: float, comes_true: int, of: int) -> Pace:
    """A pace that has seen what a batch costs here and what becomes of drafts."""
    pace = Pace()
    for _ in range(100):
        pace.took(1, single)
        pace.took(3, single + 2 * each)
        for _ in range(of - comes_true):
            pace.judged(3, 0, failed=True)
        pace.judged(3, comes_true, failed=False)
    return pace


@pytest.mark.parametrize(
    ("each", "comes_true", "length"),
    [
        (0.05, 9, 8),  # a GPU that is waiting for its memory
        (0.40, 9, 4),
        (0.40, 7, 2),
        (0.40, 3, 0),  # this CPU, in prose
        (0.95, 9, 0),  # a machine that computes as slowly as it reads
        (0.05, 2, 1),
    ],
)
def test_the_draft_is_as_long_as_it_pays(each: float, comes_true: int, length: int) -> None:
    assert settled(1.0, each, comes_true, 10).length(3) == length


def test_what_does_not_pay_is_tried_now_and_then() -> None:
    pace = settled(1.0, 0.4, 1, 10)
    lengths = [pace.length(3) for _ in range(96)]
    assert (sum(lengths), max(lengths)) == (3, 1)


def test_a_pause_of_the_machine_changes_little() -> None:
    pace = settled(1.0, 0.4, 9, 10)
    before = pace.length(3)
    pace.took(1, 500.0)
    pace.took(3, 900.0)
    assert abs(pace.length(3) - before) <= 4
    assert pace.length(3) > 0


# -- that it changes nothing ------------------------------------------------------------------------------------------


class Eager(Pace):
    """Drafts whatever it can."""

    def length(self, agreed: int) -> int:
        return MOST


def generation(
    model: ListModel, cached: Cached, prompt: list[int], choices: Choices, limit: int = 100
) -> LocalGeneration:
    request = Request(prompt, Sampling(max_tokens=50), stop=("<tool_response>",))
    return LocalGeneration(model, cached, request, choices, Stats(), limit, 512, Eager())


def letter(token: int) -> bytes:
    return bytes([96 + token])


def test_what_was_foreseen_is_not_evaluated_again_and_what_was_not_is_taken_back() -> None:
    model, cached, choices = ListModel(letter), Cached(), Choices([2, 3, 4, 5, 9, 8, END])
    run = generation(model, cached, [1, 2, 3, 4, 5, 6, 7, 1], choices)
    assert "".join(run) == "bcdeih"
    assert model.evaluated == [[1, 2, 3, 4, 5, 6, 7, 1], [2], [3, 4, 5, 6, 7, 1, 2, 3, 4], [9], [8]]
    assert choices.asked == [-1, -1, -9, -8, -7, -1, -1]
    assert list(cached.ids) == model.positions == [1, 2, 3, 4, 5, 6, 7, 1, 2, 3, 4, 5, 9, 8]
    assert (run.usage.generated_tokens, run.usage.evaluated_tokens) == (7, 14)


@pytest.mark.parametrize("count", range(9))
def test_wherever_a_reply_ends_the_cache_holds_its_tokens_and_no_draft(count: int) -> None:
    prompt, reply = [1, 2, 3, 4, 5, 6, 7, 1], [2, 3, 4, 5, 9, 8, 1, 2, 3]
    for ending in ([END], []):
        model, cached = ListModel(letter), Cached()
        run = generation(model, cached, prompt, Choices([*reply[:count], *ending, *[END] * (not ending)]))
        texts = iter(run)
        for _ in range(count):
            next(texts)
        run.close()
        assert list(cached.ids) == model.positions
        assert model.positions == [*prompt, *reply][: len(model.positions)]
        assert run.usage.evaluated_tokens == len(model.positions)


@pytest.mark.parametrize("fails_at", range(8, 18))
def test_a_batch_that_fails_leaves_the_record_true(fails_at: int) -> None:
    model, cached = ListModel(letter, (fails_at, EngineError("broken"))), Cached()
    run = generation(model, cached, [1, 2, 3, 4, 5, 6, 7, 1], Choices([2, 3, 4, 5, 9, 8, 1, 2, 3, END]))
    with pytest.raises(EngineError, match="broken"):
        list(run)
    assert list(cached.ids) == model.positions
    assert run.usage.evaluated_tokens == len(cached)


@pytest.mark.parametrize("limit", range(9, 16))
def test_no_draft_goes_beyond_the_window(limit: int) -> None:
    model = ListModel(letter)
    run = generation(model, Cached(), [1, 2, 3, 4, 5, 6, 7, 1], Choices([2, 3, 4, 5, 6, 7, 1, 2, 3, 4]), limit)
    list(run)
    assert run.finish == "context"
    assert len(model.positions) == limit
    assert model.most <= limit


PROMPT = [100 + i % 37 for i in range(120)]


def opened(model_file: Path, eager: bool) -> LlamaEngine:
    options = EngineOptions(n_ctx=2_048, n_ctx_reading=0, n_threads=1, type_k="q8_0", speculate=eager)
    engine = LlamaEngine(model_file, options)
    if eager:
        engine._paces = [Eager()]
    return engine


@pytest.fixture(scope="module")
def pair(model_file: Path) -> Iterator[tuple[LlamaEngine, LlamaEngine]]:
    """The same model with drafts wherever there is one, and without."""
    drafting, plain = opened(model_file, True), opened(model_file, False)
    yield drafting, plain
    drafting.close()
    plain.close()


@pytest.mark.parametrize(
    "settings",
    [
        Sampling(temperature=0.0, presence_penalty=0.0, max_tokens=300),
        *(Sampling(temperature=0.03, presence_penalty=0.0, max_tokens=300, seed=seed) for seed in range(3)),
        *(Sampling(temperature=0.1, presence_penalty=0.01, max_tokens=300, seed=seed) for seed in range(3)),
        *(Sampling(max_tokens=300, seed=seed) for seed in range(3)),
    ],
)
def test_token_for_token_the_same_reply_with_drafts_and_without(
    pair: tuple[LlamaEngine, LlamaEngine], settings: Sampling
) -> None:
    said = []
    for engine in pair:
        run = engine.generate(Request(PROMPT, settings))
        text = "".join(run)
        assert engine._context.held(0) == len(engine.cached())
        said.append((text, run.finish, engine.cached(), run.usage.evaluated_tokens, run.usage.generated_tokens))
    assert said[0] == said[1]


def test_drafts_came_true_and_others_did_not(pair: tuple[LlamaEngine, LlamaEngine]) -> None:
    for seed in range(3):
        list(
            pair[0].generate(
                Request(PROMPT, Sampling(temperature=0.1, presence_penalty=0.0, max_tokens=200, seed=seed))
            )
        )
    stats = pair[0].stats
    assert 100 < stats.accepted_tokens < stats.drafted_tokens
    assert pair[1].stats.drafted_tokens == 0


def test_a_seed_gives_the_same_run_by_default() -> None:
    assert [EngineOptions(type_k=k, type_v=v, speculate=given).drafts for k, v, given in (
        ("f16", None, None), ("q8_0", None, None), ("q8_0", "f16", None), ("f16", None, True), ("q4_0", None, False),
    )] == [False, True, False, True, False]  # fmt: skip
