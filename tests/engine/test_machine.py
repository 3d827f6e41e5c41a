"""Cores and memory of the machine."""

from __future__ import annotations

import os

import pytest

from venus_edge.engine.machine import (
    Others,
    asked_threads,
    available_memory,
    busy_seconds,
    cores,
    share_of_others,
)


def test_there_is_at_least_one_core_and_not_more_than_the_system_has() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
    assert available_memory() >= 0


@pytest.mark.parametrize(
    ("environment", "count"),
    [
        ({}, None),
        ({"OMP_NUM_THREADS": "3"}, 3),
        ({"OMP_NUM_THREADS": " 3,2 "}, 3),
        ({"OMP_NUM_THREADS": "8", "OMP_THREAD_LIMIT": "2"}, 2),
        ({"OMP_THREAD_LIMIT": "2"}, 2),
        ({"OMP_NUM_THREADS": "0"}, None),
        ({"OMP_NUM_THREADS": "all"}, None),
    ],
)
def test_openmps_count_of_threads(environment: dict[str, str], count: int | None) -> None:
    assert asked_threads(environment) == count


def test_busy_seconds_of_a_system_and_of_one_that_does_not_tell() -> None:
    tick = os.sysconf("SC_CLK_TCK")
    assert busy_seconds("cpu  100 20 30 4000 500 6 7 8 9 9\ncpu0 1 1 1 1\n") * tick == 163
    assert [busy_seconds(text) for text in ("", "cpu", "intr 1 2 3 4 5 6 7", "cpu a b c d e f g")] == [0, 0, 0, 0]


def test_what_others_use_is_what_is_used_less_what_this_process_uses() -> None:
    assert share_of_others((0.0, 100.0, 10.0), (2.0, 103.5, 11.5)) == 1.0
    assert share_of_others((0.0, 100.0, 10.0), (2.0, 101.0, 11.5)) == 0.0  # ticks are coarse
    assert share_of_others((0.0, 0.0, 10.0), (2.0, 0.0, 11.5)) is None  # macOS, Windows
    assert share_of_others((1.0, 5.0, 1.0), (1.0, 6.0, 1.0)) is None


def test_others_are_looked_at_once_a_second() -> None:
    assert Others().busy() is None
    others = Others()
    others._before = (others._before[0] - 2, *others._before[1:])
    found = others.busy()
    assert found is None or found >= 0
    assert others.busy() is None
