"""What a machine has: the limits of a container count, and nothing is guessed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from venus_edge.engine.offload import Card
from venus_edge.fit import machine
from venus_edge.fit.planner import Gpu
from venus_edge.fit.sizes import GIB


def test_this_machine_is_probed() -> None:
    found = machine.probe()
    assert 0 < found.ram_free < found.ram_total
    assert found.cores >= 1
    assert found.offload == machine.build().offload
    assert found.offload or found.gpu is None


@pytest.mark.parametrize(
    ("features", "kinds"),
    [
        (("AVX2", "REPACK"), {"Q4_0", "Q4_K", "IQ4_NL"}),
        (("AVX2",), set()),
        (("AVX2", "AVX512", "AMX_INT8", "REPACK"), set()),
        (("NEON", "DOTPROD", "REPACK"), {"Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL"}),
        ((), set()),
    ],
)
def test_the_types_that_a_cpu_rewrites(features: tuple[str, ...], kinds: set[str]) -> None:
    assert machine.repacks(features) == kinds


def test_a_card_is_planned_with_a_part_left_to_the_system() -> None:
    card = Card("CUDA0", "CUDA", "NVIDIA RTX 4090", 24 * GIB, 20 * GIB)
    assert machine.gpu(card) == Gpu("NVIDIA RTX 4090", 24 * GIB, 20 * GIB - 24 * GIB // 20)
    shared = replace(card, integrated=True, total=4 * GIB, free=100)
    assert machine.gpu(shared) == Gpu("NVIDIA RTX 4090", 4 * GIB, 0, True)


def test_the_disk_of_a_folder_that_is_not_made_yet_is_that_of_its_parent(tmp_path: Path) -> None:
    assert machine.disk_free(tmp_path / "a" / "b") > 0
