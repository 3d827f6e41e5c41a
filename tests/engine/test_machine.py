"""Cores and memory of the machine."""

from __future__ import annotations

import os

import pytest

from venus_edge.engine.machine import _quota, available_memory, cores


def test_there_is_at_least_one_core_and_not_more_than_the_system_has() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
    assert available_memory() >= 0


@pytest.mark.parametrize(
    ("line", "whole"), [("max 100000\n", 0), ("200000 100000\n", 2), ("50000 100000\n", 1), ("", 0), ("odd", 0)]
)
def test_a_containers_share_of_cores(line: str, whole: int) -> None:
    assert _quota(line) == whole
