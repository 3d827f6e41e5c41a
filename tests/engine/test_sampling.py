"""The sampler draws from vLLM's distribution; seeds are derived and never llama.cpp's "choose one"."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from venus_edge.engine import Sampling
from venus_edge.engine.chain import distribution
from venus_edge.engine.sampling import LLAMA_DEFAULT_SEED, Presence, safe_seed, steps, turn_seed

LOGITS = [float(x) for x in np.random.default_rng(7).normal(0, 3, 500)]
GENERATED = [int(np.argmax(LOGITS)), 3, 3, 17, 400]


def reference(settings: Sampling, generated: list[int]) -> Any:
    """vLLM's order (v1/sample/sampler.py): penalties, temperature, min_p, top-k, top-p over what top-k left."""
    logits = np.array(LOGITS, np.float64)
    logits[sorted(set(generated))] -= settings.presence_penalty
    if settings.temperature == 0:
        return np.eye(len(logits))[np.argmax(logits)]
    logits /= settings.temperature
    p = np.exp(logits - logits.max())
    logits[p < settings.min_p * p.max()] = -np.inf
    if settings.top_k > 0:
        logits[logits < np.sort(logits)[-min(settings.top_k, len(logits))]] = -np.inf
    p = np.exp(logits - logits.max())
    p /= p.sum()
    order = np.argsort(p)  # ascending, as vLLM's apply_top_k_top_p
    dropped = order[np.cumsum(p[order]) <= 1 - settings.top_p]
    p[[token for token in dropped if token != order[-1]]] = 0
    return p / p.sum()


@pytest.mark.parametrize("generated", [[], GENERATED])
@pytest.mark.parametrize(
    "settings",
    [
        Sampling(),  # the official one
        Sampling(temperature=0.6),
        Sampling(temperature=1.7, top_p=0.8),
        Sampling(temperature=1.7, top_k=0, top_p=0.8, min_p=0.02),
        Sampling(temperature=0.8, top_k=0, top_p=1.0, min_p=0.0, presence_penalty=0.0),
        Sampling(temperature=1.3, top_k=5, min_p=0.3),
        Sampling(temperature=0.0),
        Sampling(temperature=0.0, presence_penalty=5.0),
        Sampling(top_k=10_000),
    ],
)
def test_a_token_is_drawn_from_vllms_distribution(settings: Sampling, generated: list[int]) -> None:
    np.testing.assert_allclose(distribution(settings, LOGITS, generated), reference(settings, generated), atol=2e-6)


def test_a_temperature_is_applied_before_top_p() -> None:
    hot = Sampling(temperature=2.0, top_k=0, top_p=0.5, presence_penalty=0.0)
    cold = Sampling(temperature=0.5, top_k=0, top_p=0.5, presence_penalty=0.0)
    assert np.count_nonzero(distribution(hot, LOGITS)) > np.count_nonzero(distribution(cold, LOGITS))


def test_every_sampler_is_named_with_its_value() -> None:
    assert steps(Sampling(seed=5)) == (
        ("top_k", (20,)),
        ("temp", (1.0,)),
        ("min_p", (0.0, 1)),
        ("top_p", (0.95, 1)),
        ("dist", (5,)),
    )
    assert steps(Sampling(temperature=0.0)) == (("greedy", ()),)


def test_the_presence_penalty_counts_a_token_once() -> None:
    presence, row = Presence(1.5), np.zeros(4)
    for token in (2, 2, 1, 2):
        presence.accept(token)
    presence.apply(row)
    assert row.tolist() == [0.0, -1.5, -1.5, 0.0]


@given(st.integers(), st.integers(0, 500), st.integers(1, 9))
def test_a_seed_is_deterministic_and_short(seed: int, turn: int, attempt: int) -> None:
    derived = turn_seed(seed, turn, attempt)
    assert derived == turn_seed(seed, turn, attempt)
    assert 0 <= derived < LLAMA_DEFAULT_SEED


def test_seeds_of_a_run_differ_and_stay_what_they_are() -> None:
    assert len({turn_seed(1, turn, attempt) for turn in range(200) for attempt in range(1, 6)}) == 1_000
    assert [turn_seed(0, 1, 1), turn_seed(0, 1, 2), turn_seed(1, 1, 1)] == [3805228711, 2649961579, 674676031]
    assert safe_seed(-1) == LLAMA_DEFAULT_SEED - 1
