"""The record of the cache: common prefixes, and never the whole prompt."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from venus_edge.engine.kv import Cached
from venus_edge.engine.lookup import common_prefix


@given(st.lists(st.integers(0, 3), max_size=3_000), st.lists(st.integers(0, 3), max_size=30), st.integers(0, 3_000))
def test_the_common_prefix_is_the_longest(a: list[int], tail: list[int], at: int) -> None:
    b = [*a[:at], *tail]
    expected = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    assert common_prefix(a, b) == expected


def test_the_last_token_of_a_prompt_is_evaluated_again_for_its_logits() -> None:
    cached = Cached()
    cached.extend([1, 2, 3])
    assert cached.reusable([1, 2, 3]) == 2
    assert cached.reusable([1, 2, 3, 4]) == 3
    assert cached.reusable([9]) == 0
    cached.cut(1)
    assert (len(cached), cached.ids) == (1, (1,))
