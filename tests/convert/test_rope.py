"""config.json and the context wanted -> window, theta, scaling: a table of what is right, one of what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest
from venus_convert.rope import rope
from venus_convert.values import Rope, Scaling

from tests.convert.checkpoints import refusal

THINKING_2507 = {"max_position_embeddings": 262144, "rope_theta": 5000000, "rope_scaling": None}
QWEN3_4B = {"max_position_embeddings": 40960, "rope_theta": 1000000, "rope_scaling": None}
OVER_32K = {"factor": 4.0, "original_max_position_embeddings": 32768}
NATIVE = Rope(262144, 5e6)
STRETCHED = Rope(40960, 1e6, Scaling("yarn", 4.0, 32768))


def old(**scaling: Any) -> dict[str, Any]:
    return QWEN3_4B | {"rope_scaling": scaling}


def new(**parameters: Any) -> dict[str, Any]:
    return {"max_position_embeddings": 40960, "rope_parameters": parameters}


@pytest.mark.parametrize(
    ("config", "context", "expected"),
    [
        pytest.param(THINKING_2507, None, NATIVE, id="2507 as it is"),
        pytest.param(THINKING_2507, 131072, NATIVE, id="2507 at 128K needs no scaling"),
        pytest.param(THINKING_2507, 262144, NATIVE, id="2507 at its own window"),
        pytest.param(THINKING_2507, 524288, Rope(524288, 5e6, Scaling("yarn", 2.0, 262144)), id="2507 beyond it"),
        pytest.param(QWEN3_4B, None, Rope(40960, 1e6), id="Qwen3-4B as it is"),
        pytest.param(QWEN3_4B, 32768, Rope(40960, 1e6), id="Qwen3-4B at 32K"),
        pytest.param(QWEN3_4B, 131072, Rope(131072, 1e6, Scaling("yarn", 4.0, 32768)), id="Qwen3-4B at 128K"),
        pytest.param(QWEN3_4B, 65536, Rope(65536, 1e6, Scaling("yarn", 2.0, 32768)), id="Qwen3-4B at 64K"),
        pytest.param(old(type="yarn", **OVER_32K), None, STRETCHED, id="v4 with type"),
        pytest.param(old(rope_type="yarn", **OVER_32K), None, STRETCHED, id="v4 with rope_type"),
        pytest.param(old(rope_type="yarn", type="yarn", **OVER_32K), None, STRETCHED, id="v4 with both, equal"),
        pytest.param(new(rope_type="yarn", rope_theta=1000000, **OVER_32K), None, STRETCHED, id="v5"),
        pytest.param(old(type="yarn", **OVER_32K) | {"rope_parameters": None}, None, STRETCHED, id="v4 with a null v5"),
        pytest.param(
            new(rope_type="yarn", rope_theta=1000000, **OVER_32K) | {"rope_scaling": None, "rope_theta": None},
            None, STRETCHED, id="v5 with null v4",
        ),
        pytest.param(new(rope_type="default", rope_theta=1e6), None, Rope(40960, 1e6), id="v5 default"),
        pytest.param(new(full_attention={"type": "default", "rope_theta": 1e6}), None, Rope(40960, 1e6), id="nested"),
        pytest.param(old(), None, Rope(40960, 1e6), id="an empty table"),
        pytest.param(old(type=None), None, Rope(40960, 1e6), id="a null type"),
        pytest.param(old(type="linear", factor=2), None, Rope(40960, 1e6, Scaling("linear", 2.0, 40960)), id="linear"),
        pytest.param(
            old(type="yarn", **OVER_32K), 131072, Rope(131072, 1e6, Scaling("yarn", 4.0, 32768)), id="own YaRN"
        ),
        pytest.param(
            old(type="yarn", **OVER_32K), 262144, Rope(262144, 1e6, Scaling("yarn", 8.0, 32768)), id="beyond its YaRN"
        ),
        pytest.param(
            old(type="yarn", beta_fast=16, beta_slow=2, attention_factor=0.1 * math.log(4) + 1, **OVER_32K), None,
            Rope(40960, 1e6, Scaling("yarn", 4.0, 32768, 1.0, 16.0, 2.0)), id="YaRN's options",
        ),
    ],
)  # fmt: skip
def test_positions_follow_the_checkpoint_and_scaling_only_where_the_window_ends(
    config: dict[str, Any], context: int | None, expected: Rope
) -> None:
    assert rope(config, context) == expected


def test_a_factor_asked_by_hand_is_taken_beyond_the_window() -> None:
    assert rope(THINKING_2507, 524288, 4.0) == Rope(524288, 5e6, Scaling("yarn", 4.0, 262144))


def test_yarn_without_its_original_length_takes_the_window_and_says_so() -> None:
    note = "rope: YaRN without original_max_position_embeddings; max_position_embeddings (40,960) is it"
    assert rope(old(type="yarn", factor=4.0)) == Rope(40960, 1e6, Scaling("yarn", 4.0, 40960), (note,))


def test_a_factor_of_one_scales_nothing_and_is_said() -> None:
    note = "rope: yarn with factor 1 scales nothing and is left out"
    assert rope(old(type="yarn", factor=1.0)) == Rope(40960, 1e6, None, (note,))


@pytest.mark.parametrize(
    ("config", "context", "factor", "reason"),
    [
        pytest.param(THINKING_2507, 131072, 4.0, "covers 131,072", id="YaRN at 128K of 256K"),
        pytest.param(THINKING_2507, None, 4.0, "covers 262,144", id="YaRN for nothing"),
        pytest.param(old(type="yarn", **OVER_32K), 131072, 4.0, "covers 131,072", id="YaRN twice"),
        pytest.param(QWEN3_4B, 131072, 2.0, "does not reach 131,072: it takes 4", id="a factor too small"),
        pytest.param(QWEN3_4B, 131072, math.nan, "does not reach", id="no number"),
        pytest.param({"max_position_embeddings": 40960}, None, None, "theta is never guessed", id="no theta"),
        pytest.param(QWEN3_4B | {"rope_theta": None}, None, None, "theta is never guessed", id="a null theta"),
        pytest.param(QWEN3_4B | {"rope_theta": "1e6"}, None, None, "positive number, it is '1e6'", id="theta as text"),
        pytest.param(QWEN3_4B | {"rope_theta": True}, None, None, "positive number", id="theta as a switch"),
        pytest.param(QWEN3_4B | {"rope_theta": 0}, None, None, "positive number", id="theta of zero"),
        pytest.param(QWEN3_4B | new(rope_theta=5e6), None, None, "both 1e+06 and 5e+06", id="two thetas"),
        pytest.param(old(rope_type="spiral", factor=2.0), None, None, "'spiral'", id="an unknown type"),
        pytest.param(old(type="dynamic", factor=2.0), None, None, "'dynamic'", id="a type llama.cpp lacks"),
        pytest.param(
            old(type="yarn", rope_type="linear", factor=2.0), None, None, "both 'yarn' and 'linear'", id="two types"
        ),
        pytest.param(
            old(type="yarn", factor=4.0) | new(rope_type="yarn", factor=2.0),
            None,
            None,
            "disagree on factor",
            id="twins",
        ),
        pytest.param(old(type="yarn"), None, None, "without a factor", id="no factor"),
        pytest.param(old(type="yarn", factor="4"), None, None, "positive number, it is '4'", id="a factor as text"),
        pytest.param(old(type="yarn", factor=0.5), None, None, "below 1", id="a factor below one"),
        pytest.param(QWEN3_4B | {"rope_scaling": "yarn"}, None, None, "a table or null", id="no table"),
        pytest.param({"rope_theta": 1e6}, None, None, "max_position_embeddings", id="no window"),
        pytest.param(
            QWEN3_4B | {"max_position_embeddings": -1}, None, None, "max_position_embeddings", id="a negative window"
        ),
    ],
)
def test_what_would_have_to_be_guessed_is_refused_by_name(
    config: dict[str, Any], context: int | None, factor: float | None, reason: str
) -> None:
    assert reason in refusal(lambda: rope(config, context, factor))
