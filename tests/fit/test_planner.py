"""Model + machine + wishes -> plan: sizes to the byte, and what is given up in which order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from venus_edge.engine import offload
from venus_edge.fit import planner, sizes
from venus_edge.fit.planner import Gpu, Machine, Plan, Wishes, plan
from venus_edge.fit.sizes import GIB, MIB, QWEN3_4B
from venus_edge.values import KvTypes

MODEL = sizes.known("DR-Venus 4B")
README = Path(__file__).resolve().parents[2] / "README.md"


def laptop(free: float, **more: object) -> Machine:
    return replace(Machine(64 * GIB, int(free * GIB), 4), **more)  # type: ignore[arg-type]  # the fields' own types


def chosen(machine: Machine, **wishes: object) -> Plan:
    return plan(MODEL, machine, replace(Wishes(), **wishes))  # type: ignore[arg-type]  # as above


# -- sizes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "kv", "mebibytes"),
    [
        (32_768, "f16", 4_608), (32_768, "q8_0", 2_448), (32_768, "q4_0", 1_296), (131_072, "f16", 18_432),
        (131_072, "q8_0", 9_792), (131_072, "q4_0", 5_184), (262_144, "q8_0", 19_584), (262_144, "f16", 36_864),
    ],
)  # fmt: skip
def test_the_kv_cache_is_what_was_measured(cells: int, kv: str, mebibytes: int) -> None:
    assert sizes.kv_bytes(QWEN3_4B, cells, kv, kv) == mebibytes * MIB


@pytest.mark.parametrize(
    ("window", "ubatch", "kv", "flash", "reported"),  # of llama.cpp's log, MiB
    [
        (4_096, 512, ("f16", "f16"), True, 84.01), (32_768, 512, ("q8_0", "q8_0"), True, 112.09),
        (131_072, 512, ("f16", "f16"), True, 208.01), (131_072, 512, ("q8_0", "f16"), True, 200.07),
        (32_768, 64, ("f16", "f16"), True, 14.00), (131_072, 2_048, ("q8_0", "q8_0"), True, 832.13),
        (4_096, 512, ("f16", "f16"), False, 299.01), (32_768, 2_048, ("f16", "f16"), False, 8_588.03),
    ],
)  # fmt: skip
def test_the_work_buffer_is_what_llama_cpp_reports(
    window: int, ubatch: int, kv: tuple[str, str], flash: bool, reported: float
) -> None:
    predicted = sizes.compute_bytes(QWEN3_4B, window, ubatch, *kv, flash=flash) / MIB
    assert predicted == pytest.approx(reported, rel=0.01)


def test_the_weights_of_a_quantization_follow_from_the_geometry() -> None:
    # 2,497,280,256 bytes are the published Q4_K_M, 8,051,284,736 the bf16: both with 6 MB of vocabulary in the header
    assert sizes.weights_of(QWEN3_4B, "Q4_K_M").total == pytest.approx(2_497_280_256 - 5_960_000, rel=1e-4)
    assert sizes.weights_of(QWEN3_4B, "BF16").total == pytest.approx(8_051_284_736 - 5_960_000, rel=1e-4)


def test_what_a_cpu_rewrites_is_held_twice_but_needed_once() -> None:
    plain, _ = sizes.memory(MODEL, "Q4_K_M", frozenset(), 32_768)
    twice, _ = sizes.memory(MODEL, "Q4_K_M", frozenset({"Q4_K"}), 32_768)
    assert twice.needed == plain.needed
    assert (twice.allocated - plain.allocated) / MIB == pytest.approx(1_683.28, abs=0.01)  # CPU_REPACK, reported
    tied, _ = sizes.memory(MODEL, "Q4_K_M", frozenset({"Q6_K"}), 32_768)
    assert tied.allocated - plain.allocated == MODEL.weights["Q4_K_M"].embedding  # the output, which is the embedding


def test_what_goes_to_a_device_leaves_the_memory() -> None:
    alone, _ = sizes.memory(MODEL, "Q4_K_M", frozenset(), 32_768)
    ram, gpu = sizes.memory(MODEL, "Q4_K_M", frozenset(), 32_768, gpu_layers=37)
    assert (ram.kv, gpu.kv) == (0, alone.kv)
    assert ram.weights + gpu.weights == alone.weights + MODEL.weights["Q4_K_M"].output  # tied: the output is a copy
    half, there = sizes.memory(MODEL, "Q4_K_M", frozenset(), 32_768, gpu_layers=19)
    assert half.kv + there.kv == alone.kv
    assert half.kv == there.kv


# -- the choice -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "window", "kv"),
    [
        (24, 131_072, "f16"), (16, 131_072, "q8_0"), (11, 98_304, "q8_0"), (8.3, 65_536, "q8_0"), (6, 32_768, "q8_0"),
        (4.3, 16_384, "q8_0"), (3.7, 16_384, "q4_0"), (3.3, 4_096, "q8_0"), (3, 4_096, "q4_0"),
    ],
)  # fmt: skip
def test_less_memory_costs_f16_first_then_the_window_and_q8_0_last(free: float, window: int, kv: str) -> None:
    found = chosen(laptop(free))
    assert (found.n_ctx, found.kv_type, found.fits) == (window, kv, True)
    assert found.ram.needed <= free * GIB


def test_more_memory_never_gives_a_shorter_window() -> None:
    windows = [chosen(laptop(tenth / 10)).n_ctx for tenth in range(30, 260)]
    assert windows == sorted(windows)


def test_a_window_under_16k_says_what_it_costs() -> None:
    assert any("under 16,384 tokens most questions cannot be finished" in line for line in chosen(laptop(3.3)).given_up)
    assert any("under 16,384 tokens" in line for line in chosen(laptop(24), n_ctx=8_192).given_up)
    assert chosen(laptop(24)).given_up == ()


def test_q4_0_is_said_to_hurt_tool_calls() -> None:
    assert any("KV at q4_0: tool calls come out wrong" in line for line in chosen(laptop(3.7)).given_up)


def test_what_fits_nowhere_names_the_parts_and_the_remedies() -> None:
    found = chosen(laptop(16), n_ctx=131_072, kv_type="f16")
    assert not found.fits
    assert found.given_up == (
        "a window of 131,072 tokens takes 22.0 GiB of memory (2.3 weights, 19.1 KV at f16, 0.5 beside them), 16.0 are "
        "free: give a smaller --context or --kv-type q8_0, or close other programs",
    )


def test_what_was_asked_for_is_kept_or_refused_never_changed() -> None:
    for window in (8_192, 32_768, 131_072, 262_144):
        for kv in ("f16", "q8_0", "q4_0"):
            found = chosen(laptop(10), n_ctx=window, kv_type=kv)
            assert (found.n_ctx, found.kv_type) == (window, kv)


def test_an_asked_window_takes_the_best_kv_type_that_fits() -> None:
    kinds = [chosen(laptop(free), n_ctx=65_536).kv_type for free in (16, 9, 6.5)]
    assert kinds == ["f16", "q8_0", "q4_0"]


def test_a_model_of_a_short_window_is_opened_whole_and_nothing_is_given_up() -> None:
    short = replace(MODEL, shape=replace(QWEN3_4B, n_ctx_train=4_096))
    found = plan(short, laptop(16))
    assert (found.n_ctx, found.given_up) == (4_096, ())


def test_no_second_window_is_planned_where_nobody_reads_with_the_model() -> None:
    assert chosen(laptop(16), reading=0).n_ctx_reading == 0
    assert [chosen(laptop(free)).n_ctx_reading for free in (16, 6, 3)] == [8_192, 4_096, 1_024]


def test_threads_are_the_cores_unless_they_are_asked_for() -> None:
    assert (chosen(laptop(16)).threads, chosen(laptop(16), threads=3).threads) == (4, 3)


# -- devices ----------------------------------------------------------------------------------------------------------


def card(free: float, unified: bool = False) -> tuple[Gpu, ...]:
    return (Gpu("card", int(free * GIB), int(free * GIB), unified),)


def test_a_device_takes_all_layers_where_a_window_of_32k_fits_and_some_where_not() -> None:
    full, some = chosen(laptop(12, gpus=card(5.25))), chosen(laptop(12, gpus=card(3)))
    assert (full.gpu_layers, full.n_ctx) == (37, 32_768)
    assert 0 < some.gpu_layers < 37
    assert f"{some.gpu_layers} of 37 layers on the GPU; the CPU computes the others" in some.given_up
    assert some.gpu.needed <= 3 * GIB


def test_a_large_device_takes_a_heavier_quantization_before_a_lighter_one() -> None:
    assert [chosen(laptop(32, gpus=card(free))).quant for free in (24, 13.5, 12)] == ["Q8_0", "Q6_K", "Q4_K_M"]


def test_the_heavier_quantization_is_not_taken_on_a_cpu_or_against_a_wish() -> None:
    assert chosen(laptop(64)).quant == "Q4_K_M"
    assert chosen(laptop(32, gpus=card(24)), quant="Q4_K_M").quant == "Q4_K_M"


def test_layers_that_were_asked_for_are_kept() -> None:
    assert chosen(laptop(16, gpus=card(24)), gpu_layers=0).gpu_layers == 0
    assert chosen(laptop(16, gpus=card(24)), gpu_layers=12).gpu_layers == 12
    refused = chosen(laptop(16, gpus=card(2)), gpu_layers=-1)
    assert not refused.fits
    assert "of the GPU" in refused.given_up[0]


def test_a_build_that_cannot_offload_has_no_device() -> None:
    assert chosen(laptop(16, gpus=card(24), offload=False)).gpu_layers == 0


def test_a_card_without_room_for_one_layer_is_said() -> None:
    found = chosen(laptop(16, gpus=card(0.3)))
    assert found.gpu_layers == 0
    assert "the GPU: not one layer finds room on it" in found.given_up


def test_unified_memory_is_not_counted_twice() -> None:
    found = chosen(laptop(10, gpus=card(10, unified=True)))
    assert found.gpu_layers == 37
    assert found.gpu.needed + found.ram.needed <= 10.5 * GIB


# -- K and V apart ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kv", "mebibytes"),
    [("q8_0,f16", 3_528), ("f16,q8_0", 3_528), ("q8_0,q4_0", 1_872), ("q4_0,f16", 2_952), ("q8_0,q8_0", 2_448)],
)
def test_k_and_v_are_counted_apart(kv: str, mebibytes: int) -> None:
    found = chosen(laptop(16), n_ctx=32_768, kv_type=kv, reading=0)
    assert found.ram.kv == mebibytes * MIB
    assert found.kv_type == ("q8_0" if kv == "q8_0,q8_0" else kv)


def test_without_flash_attention_v_stays_at_f16() -> None:
    kinds = [chosen(laptop(free), n_ctx=16_384, flash=False).kv_type for free in (16, 6.2, 5.55)]
    assert kinds == ["f16", "q8_0,f16", "q4_0,f16"]
    assert chosen(laptop(16), flash=False).n_ctx < chosen(laptop(16)).n_ctx  # the scores of all heads are held


def test_two_types_that_the_card_does_not_take_are_planned_as_one_and_said() -> None:
    takes_none = laptop(24, gpus=card(24), unmixable=frozenset({"q8_0,f16", "f16,q8_0"}))
    found = chosen(takes_none, kv_type="q8_0,f16")
    assert (found.kv_type, found.gpu_layers) == ("q8_0", 37)
    assert offload.unmixed(KvTypes.of("q8_0,f16")) in found.given_up
    on_cpu = chosen(takes_none, kv_type="q8_0,f16", gpu_layers=0)
    assert (on_cpu.kv_type, on_cpu.given_up) == ("q8_0,f16", ())
    assert chosen(takes_none, kv_type="q8_0,f16", flash=False).kv_type == "q8_0,f16"
    assert chosen(laptop(16, gpus=card(24)), kv_type="q8_0,f16").kv_type == "q8_0,f16"


# -- several cards ----------------------------------------------------------------------------------------------------


def cards(*free: float) -> tuple[Gpu, ...]:
    return tuple(Gpu(f"card {number}", int(size * GIB), int(size * GIB)) for number, size in enumerate(free))


def test_layers_lie_on_cards_as_llama_cpp_shares_them_out() -> None:
    # its rule: the first card whose share of the line reaches beyond the layer's place in it
    assert sizes.split(4, 5, (1.0, 1.0)) == (0, 0, 0, 1, 1)
    assert sizes.split(4, 5, (3.0, 1.0)) == (0, 0, 0, 0, 1)
    assert sizes.split(4, 3, (1.0, 2.0)) == (0, 1, 1)
    assert sizes.split(4, 99, (0.0, 1.0)) == (1,) * 5
    assert sizes.split(4, 0, (1.0,)) == ()
    for shares in ((7.0, 3.0, 1.0), (0.1, 0.2, 0.7), (1.0, 0.0, 1.0)):
        counts = [sizes.split(36, 37, shares).count(number) for number in range(3)]
        assert sum(counts) == 37
        assert all(abs(count - 37 * share / sum(shares)) <= 1 for count, share in zip(counts, shares, strict=True))


def test_what_the_cards_hold_is_what_one_would_and_a_work_buffer_for_each() -> None:
    kv, inputs = ("q8_0", "f16"), 2 * 32_768 * 512 + 4 * QWEN3_4B.width * 512  # the mask and the tokens of a batch
    work = sizes.compute_bytes(QWEN3_4B, 32_768, 512, *kv)
    _, one = sizes.memory(MODEL, "Q4_K_M", frozenset(), 32_768, kv, gpu_layers=37)
    both = sizes.on_cards(MODEL, "Q4_K_M", 32_768, kv, 37, (2.0, 1.0))
    assert [sum(getattr(held, part) for held in both) for part in ("weights", "kv")] == [one.weights, one.kv]
    assert one.compute == work - 4 * QWEN3_4B.width * 512  # the tokens lie in memory
    assert [held.compute for held in both] == [work + 3 * inputs] * 2  # four batches are under way at once
    some = sizes.on_cards(MODEL, "Q4_K_M", 32_768, kv, 20, (2.0, 1.0))
    assert [held.compute for held in some] == [work] * 2
    assert sizes.on_cards(MODEL, "Q4_K_M", 32_768, kv, 37, (0.0, 1.0)) == (sizes.Memory(), one)


def test_one_card_is_taken_where_it_is_enough_and_all_where_not() -> None:
    alone = chosen(laptop(32, gpus=cards(8, 24)))
    assert (alone.quant, alone.gpu_layers, alone.main_gpu, alone.tensor_split) == ("Q8_0", 37, 1, ())
    both = chosen(laptop(32, gpus=cards(8, 8)), n_ctx=131_072, kv_type="q8_0")
    assert (both.gpu_layers, both.main_gpu, both.tensor_split) == (37, None, (8_192.0, 8_192.0))
    assert all(held.needed <= 8 * GIB for held in both.cards)
    assert both.gpu == both.cards[0] + both.cards[1]
    some = chosen(laptop(32, gpus=cards(2, 2)), n_ctx=131_072, kv_type="q8_0")
    assert 0 < some.gpu_layers < 37
    assert all(held.needed <= 2 * GIB for held in some.cards)


def test_a_card_or_shares_that_were_asked_for_are_kept() -> None:
    two = laptop(32, gpus=cards(24, 12))
    assert chosen(two, main_gpu=1).main_gpu == 1
    assert chosen(two, main_gpu=1).cards[0] == sizes.Memory()
    assert chosen(two, tensor_split=(1.0, 3.0)).tensor_split == (1.0, 3.0)
    assert chosen(two, tensor_split=(1.0,)).main_gpu == 0
    refused = chosen(laptop(32, gpus=cards(24, 1)), gpu_layers=-1, tensor_split=(1.0, 1.0))
    assert not refused.fits
    assert "GiB of card 1" in refused.given_up[0]
    assert "fewer --gpu-layers" in refused.given_up[0]


def test_a_build_that_cannot_offload_plans_no_card_whatever_was_asked() -> None:
    without = laptop(16, gpus=cards(24, 24), offload=False)
    for wish in ({"main_gpu": 1}, {"tensor_split": (1.0, 1.0)}, {"gpu_layers": -1}):
        assert (chosen(without, **wish).gpu_layers, chosen(without, **wish).main_gpu) == (0, None)


def test_a_snapshot_is_the_conversations_part_of_the_cache() -> None:
    assert chosen(laptop(16)).snapshot == sizes.kv_bytes(QWEN3_4B, 131_072, "q8_0", "q8_0")


def test_the_readmes_ladder_is_what_the_planner_says() -> None:
    assert planner.ladder() in README.read_text(encoding="utf-8")
