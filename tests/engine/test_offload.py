"""What goes to a GPU, for builds and cards that are not here: decided before, read back afterwards, never assumed."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest

from venus_edge.engine import offload, options
from venus_edge.engine.offload import MIB, Buffer, Build, Card, Decision, Placement, Sign
from venus_edge.engine.options import EngineOptions
from venus_edge.errors import UsageError
from venus_edge.fit import sizes
from venus_edge.values import KV_NAMES, KvTypes

RTX, ARC, M3 = Sign("NVIDIA", "CUDA"), Sign("AMD or Intel", "VULKAN"), Sign("Apple", "METAL")
CUDA_INFO = (
    "CUDA : ARCHS = 800,890 | USE_GRAPHS = 1 | FA_QUANTS = q4_0-q4_0,q8_0-q8_0,f16-f16,bf16-bf16 | CPU : AVX2 = 1 |"
)

NONE = Build(("CPU",))
NO_CARD = Build(("CUDA", "CPU"), (), CUDA_INFO)
CUDA = Build(("CUDA", "CPU"), (Card("CUDA0", "CUDA", "NVIDIA GeForce RTX 4090"),), CUDA_INFO)
TWO = Build(
    ("CUDA", "CPU"),
    (Card("CUDA0", "CUDA", "NVIDIA GeForce RTX 4090"), Card("CUDA1", "CUDA", "NVIDIA GeForce RTX 3060")),
    CUDA_INFO,
)
METAL = Build(("MTL", "BLAS", "CPU"), (Card("MTL0", "MTL", "Apple M3"),))
VULKAN = Build(("Vulkan", "CPU"), (Card("Vulkan0", "Vulkan", "AMD Radeon 780M", integrated=True),))
BUILDS = {"none": NONE, "no card": NO_CARD, "cuda": CUDA, "two": TWO, "metal": METAL, "vulkan": VULKAN}


def decide(build: Build, sign: Sign | None = None, system: str = "linux", **asked: Any) -> Decision:
    return offload.decide(EngineOptions(**asked), build, sign, system)


# -- layers -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("asked", "given"), [(None, -1), (-1, -1), (0, 0), (20, 20), (999, 999)])
@pytest.mark.parametrize("name", ["cuda", "two", "metal", "vulkan"])
def test_a_card_gets_the_layers_that_were_asked_for_and_all_without_a_word(
    name: str, asked: int | None, given: int
) -> None:
    assert decide(BUILDS[name], n_gpu_layers=asked) == Decision(given, None, (), KvTypes("f16", "f16"))


@pytest.mark.parametrize("sign", [None, RTX, ARC])
@pytest.mark.parametrize("name", ["none", "no card"])
def test_without_a_card_the_cpu_computes_and_nothing_is_said_unless_one_was_asked_for(
    name: str, sign: Sign | None
) -> None:
    for layers in (None, 0):
        assert decide(BUILDS[name], sign, n_gpu_layers=layers) == Decision(0, None, (), KvTypes("f16", "f16"))
    wishes: list[dict[str, Any]] = [
        {"n_gpu_layers": -1},
        {"n_gpu_layers": 20},
        {"main_gpu": 1},
        {"tensor_split": (3, 1)},
    ]
    for wish in wishes:
        decision = decide(BUILDS[name], sign, **wish)
        assert (decision.gpu_layers, decision.main_gpu, decision.tensor_split) == (0, None, ())
        (line,) = decision.notes
        assert "so the CPU computes" in line
        assert "\n" not in line


# -- the command that gets a build ------------------------------------------------------------------------------------

PIP = "pip install --force-reinstall --no-cache-dir llama-cpp-python"
INDEX = "--extra-index-url https://abetlen.github.io/llama-cpp-python/whl"


@pytest.mark.parametrize(
    ("sign", "system", "line"),
    [
        (
            RTX,
            "linux",
            "this build of llama-cpp-python cannot use the NVIDIA GPU, so the CPU computes; for one that can: "
            f'CMAKE_ARGS="-DGGML_CUDA=on" {PIP} (or a ready wheel: {PIP} {INDEX}/cu124)',
        ),
        (
            ARC,
            "linux",
            "this build of llama-cpp-python cannot use the AMD or Intel GPU, so the CPU computes; for one that can: "
            f'CMAKE_ARGS="-DGGML_VULKAN=on" {PIP} (or a ready wheel: {PIP} {INDEX}/vulkan)',
        ),
        (
            M3,
            "darwin",
            "this build of llama-cpp-python cannot use the Apple GPU, so the CPU computes; for one that can: "
            f'CMAKE_ARGS="-DGGML_METAL=on" {PIP} (or a ready wheel: {PIP} {INDEX}/metal)',
        ),
        (
            RTX,
            "win32",
            "this build of llama-cpp-python cannot use the NVIDIA GPU, so the CPU computes; for one that can: "
            f'$env:CMAKE_ARGS="-DGGML_CUDA=on"; {PIP} (or a ready wheel: {PIP} {INDEX}/cu124)',
        ),
        (
            None,
            "linux",
            "this build of llama-cpp-python has no GPU support, so the CPU computes; for a GPU: "
            f'CMAKE_ARGS="-DGGML_CUDA=on" {PIP} (or a ready wheel: {PIP} {INDEX}/cu124); '
            "for an AMD or Intel card -DGGML_VULKAN=on in its place",
        ),
        (
            None,
            "darwin",
            "this build of llama-cpp-python has no GPU support, so the CPU computes; for a GPU: "
            f'CMAKE_ARGS="-DGGML_METAL=on" {PIP} (or a ready wheel: {PIP} {INDEX}/metal)',
        ),
    ],
)
def test_a_gpu_that_the_build_lacks_is_the_exact_command_that_gets_it(sign: Sign, system: str, line: str) -> None:
    assert decide(NONE, sign, system, n_gpu_layers=-1).notes == (line,)


def test_a_gpu_that_nobody_spoke_of_is_told_where_another_build_would_use_it() -> None:
    assert offload.unused(NONE, RTX, "linux") == decide(NONE, RTX, n_gpu_layers=-1).notes[0]
    assert (offload.unused(NONE, None, "linux"), offload.unused(NO_CARD, RTX, "linux")) == ("", "")


def test_no_command_names_the_options_of_old() -> None:
    for option, system in itertools.product(("CUDA", "METAL", "VULKAN"), ("linux", "darwin", "win32")):
        assert "CUBLAS" not in offload.install(option, system)


@pytest.mark.parametrize(
    ("build", "sign", "able"),
    [
        (NO_CARD, RTX, True), (NO_CARD, ARC, False), (VULKAN, RTX, True), (VULKAN, ARC, True), (NONE, M3, False),
        (Build(("MTL", "BLAS", "CPU")), M3, True), (Build(("ROCm", "CPU")), ARC, True),
    ],
)  # fmt: skip
def test_a_build_for_another_maker_is_a_build_to_be_replaced(build: Build, sign: Sign, able: bool) -> None:
    assert offload.can_use(build, sign) is able
    said = offload.lacking(build, sign, "linux")
    assert ("CMAKE_ARGS" not in said) is able


def test_a_build_that_could_use_a_card_and_finds_none_is_a_matter_of_the_driver() -> None:
    line = "llama.cpp finds no GPU for CUDA, so the CPU computes: check its driver"
    assert decide(NO_CARD, RTX, n_gpu_layers=-1).notes == (line,)
    assert decide(NO_CARD, None, n_gpu_layers=-1).notes == (line,)


# -- cards ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("build", "asked", "said"),
    [
        (CUDA, {"main_gpu": 1}, "--main-gpu 1 is not there; llama.cpp finds 0: NVIDIA GeForce RTX 4090"),
        (
            TWO,
            {"main_gpu": 2},
            "--main-gpu 2 is not there; llama.cpp finds 0: NVIDIA GeForce RTX 4090, 1: NVIDIA GeForce RTX 3060",
        ),
        (METAL, {"tensor_split": (1.0, 1.0)}, "--tensor-split names 2 cards; llama.cpp finds 0: Apple M3"),
        (TWO, {"main_gpu": -1}, "--main-gpu counts cards from 0, it cannot be -1"),
        (TWO, {"main_gpu": 0, "tensor_split": (1.0,)}, "--main-gpu puts all layers on one card"),
        (TWO, {"tensor_split": (0.0, 0.0)}, "--tensor-split is a share for each card, like 3,1, not 0,0"),
        (TWO, {"tensor_split": (3.0, -1.0)}, "--tensor-split is a share for each card, like 3,1, not 3,-1"),
        (TWO, {"tensor_split": (math.inf,)}, "--tensor-split is a share for each card, like 3,1, not inf"),
        (TWO, {"tensor_split": (math.nan, 1.0)}, "--tensor-split is a share for each card, like 3,1, not nan,1"),
        (NONE, {"n_gpu_layers": -2}, "--gpu-layers is auto, all or a number from 0 on, not -2"),
    ],
)
def test_a_card_that_is_not_there_or_a_share_that_is_none_is_one_line(
    build: Build, asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as raised:
        decide(build, **asked)
    assert str(raised.value).startswith(said)
    assert "\n" not in str(raised.value)


def test_cards_that_are_there_are_taken_as_asked() -> None:
    assert decide(TWO, main_gpu=1).main_gpu == 1
    assert decide(TWO, tensor_split=(3.0, 1.0)).tensor_split == (3.0, 1.0)
    assert decide(TWO, tensor_split=(1.0,)).tensor_split == (1.0,)
    assert offload.chosen_cards(TWO.cards, 1, ()) == (TWO.cards[1],)
    assert offload.chosen_cards(TWO.cards, None, (0.0, 2.0)) == (TWO.cards[1],)
    assert offload.chosen_cards(TWO.cards, None, ()) == TWO.cards


def test_cards_without_layers_change_nothing_and_that_is_said() -> None:
    wishes: list[tuple[dict[str, Any], str]] = [
        ({"main_gpu": 0}, "--main-gpu"),
        ({"tensor_split": (1.0,)}, "--tensor-split"),
    ]
    for asked, flag in wishes:
        decision = decide(CUDA, n_gpu_layers=0, **asked)
        assert decision == Decision(
            0, None, (), KvTypes("f16", "f16"), (f"{flag} changes nothing: no layer goes to a GPU",)
        )


# -- KV types ---------------------------------------------------------------------------------------------------------

PAIRS = list(itertools.product(KV_NAMES, KV_NAMES))
ALL_QUANTS = Build(CUDA.backends, CUDA.cards, "CUDA : FA_QUANTS = all | CPU : AVX2 = 1 |")
OLDER = Build(CUDA.backends, CUDA.cards, "CUDA : FA_ALL_QUANTS = 1 | ")
SOME = Build(CUDA.backends, CUDA.cards, "CUDA : FA_QUANTS = q8_0-q8_0,q8_0-q4_0 | ")
SILENT = Build(CUDA.backends, CUDA.cards, "CPU : AVX2 = 1 |")
ROCM = Build(("ROCm", "CPU"), (Card("ROCm0", "ROCm", "AMD Radeon RX 7900"),))


@pytest.mark.parametrize(("k", "v"), PAIRS)
@pytest.mark.parametrize("build", [CUDA, TWO, SILENT, ROCM, METAL], ids=["cuda", "two", "silent", "rocm", "metal"])
def test_types_that_differ_become_equal_where_the_card_does_not_compute_with_both(build: Build, k: str, v: str) -> None:
    decision = decide(build, type_k=k, type_v=v)
    if k == v:
        assert (decision.kv, decision.notes) == (KvTypes(k, v), ())
    else:
        assert decision.kv == KvTypes("q8_0", "q8_0")
        assert decision.notes == (
            f"KV at q8_0 for both, not {k},{v}: the GPU has no fast way to compute with K and V of different types",
        )


@pytest.mark.parametrize(("k", "v"), PAIRS)
@pytest.mark.parametrize("build", [VULKAN, ALL_QUANTS, OLDER, NONE, NO_CARD], ids=["vulkan", "all", "old", "cpu", "no"])
def test_types_that_differ_stay_where_they_can_be_computed_with(build: Build, k: str, v: str) -> None:
    assert decide(build, type_k=k, type_v=v).kv == KvTypes(k, v)


def test_a_pair_that_the_kernels_were_built_for_stays() -> None:
    assert decide(SOME, type_k="q8_0", type_v="q4_0").notes == ()
    assert decide(SOME, type_k="q4_0", type_v="q8_0").kv == KvTypes("q8_0", "q8_0")


def test_types_that_differ_stay_on_the_cpu_of_a_machine_with_a_card_and_without_flash_attention() -> None:
    assert decide(CUDA, n_gpu_layers=0, type_k="q8_0", type_v="f16").kv == KvTypes("q8_0", "f16")
    assert decide(CUDA, type_k="q8_0", type_v="f16", flash_attention=False).kv == KvTypes("q8_0", "f16")


def test_equal_types_never_take_more_than_a_pair_with_f16() -> None:
    for k, v in PAIRS:
        equal, size = KvTypes(k, v).equal, sizes.KV_BYTES
        assert size[equal.k] + size[equal.v] <= size[k] + size[v] or "f16" not in (k, v)


@pytest.mark.parametrize(
    ("text", "types"),
    [("f16", ("f16", "f16")), ("q8_0,f16", ("q8_0", "f16")), ("q4_0 , q8_0", ("q4_0", "q8_0")), ("q8_0,q8_0", "q8_0")],
)
def test_types_are_read_as_they_are_written(text: str, types: tuple[str, str] | str) -> None:
    found = KvTypes.of(text)
    assert (str(found) if isinstance(types, str) else (found.k, found.v)) == types
    assert KvTypes.of(str(found)) == found


@pytest.mark.parametrize("text", ["", "q5", "f16,", ",f16", "f16,f16,f16", "F16", "f16/q8_0", "全"])
def test_types_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text or None):
        KvTypes.of(text)


# -- flash attention --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("v", "asked", "number"),
    [
        ("f16", None, -1), ("f16", True, 1), ("f16", False, 0), ("q8_0", None, 1), ("q8_0", True, 1), ("q4_0", None, 1),
    ],
)  # fmt: skip
def test_flash_attention_is_on_wherever_v_is_quantized(v: str, asked: bool | None, number: int) -> None:
    chosen = EngineOptions(type_k="q8_0", type_v=v, flash_attention=asked)
    options.check(chosen)
    assert chosen.flash == number


@pytest.mark.parametrize(
    ("k", "v", "way"), [("q8_0", None, "q8_0,f16"), ("f16", "q4_0", "f16"), ("q4_0", "q8_0", "q4_0,f16")]
)
def test_a_quantized_v_without_flash_attention_names_both_settings(k: str, v: str | None, way: str) -> None:
    with pytest.raises(UsageError) as raised:
        options.check(EngineOptions(type_k=k, type_v=v, flash_attention=False))
    assert str(raised.value) == (
        f"V at {v or k} needs flash attention, which is off: give --flash-attention auto, or --kv-type {way}"
    )


# -- where it does not fit --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "memory"),
    [
        ("llama_model_load: error loading model: unable to allocate Vulkan0 buffer", True),
        ("ggml_vulkan: Device memory allocation of size 1073741824 failed.", True),
        ("ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory", True),
        ("alloc_buffer: allocating 1024.00 MiB on device 0: cudaMalloc failed: out of memory", True),
        ("llama_init_from_model: failed to initialize the context: failed to allocate buffer for kv cache", True),
        ("ggml_metal_buffer_init: error: failed to allocate buffer, size = 1024.00 MiB", True),
        ("llama_model_load: error loading model: unknown model architecture: 'mamba9'", False),
        ("llama_model_load: error loading model: tensor 'a' data is not within the file bounds", False),
        ("llama_init_from_model: quantized V cache requires flash_attn to be enabled", False),
    ],
)  # fmt: skip
def test_want_of_memory_is_told_from_other_failures(line: str, memory: bool) -> None:
    assert offload.short_of_memory([line]) is memory


def test_fewer_layers_are_tried_in_four_steps_down_to_none() -> None:
    assert offload.fewer(37) == (27, 18, 9, 0)
    assert offload.fewer(5) == (3, 2, 1, 0)
    assert offload.fewer(1) == (0,)
    assert offload.fewer(0) == ()
    for layers in range(1, 100):
        steps = offload.fewer(layers)
        assert list(steps) == sorted(set(steps), reverse=True)
        assert steps[0] < layers
        assert steps[-1] == 0


def test_layers_that_found_no_room_are_one_line() -> None:
    assert offload.less(37, 27, "unable to allocate CUDA0 buffer") == (
        "the GPU has no room for 37 layers (unable to allocate CUDA0 buffer), so 27 are on it and the CPU computes the "
        "others"
    )
    assert offload.less(5, 0, "") == (
        "the GPU has no room for 5 layers (llama.cpp gives no reason), so the CPU computes"
    )


# -- read back --------------------------------------------------------------------------------------------------------

TWO_CARDS = """
llama_prepare_model_devices: using device CUDA0 (NVIDIA GeForce RTX 4090) (0000:01:00.0) - 23500 MiB free
llama_prepare_model_devices: using device CUDA1 (NVIDIA GeForce RTX 3060) (0000:02:00.0) - 11500 MiB free
load_tensors: layer   0 assigned to device CPU, is_swa = 0
load_tensors: layer   1 assigned to device CUDA0, is_swa = 0
load_tensors: layer   2 assigned to device CUDA0, is_swa = 0
load_tensors: layer   3 assigned to device CUDA1, is_swa = 0
load_tensors: offloaded 3/4 layers to GPU
load_tensors:   CPU_Mapped model buffer size =  1304.76 MiB
load_tensors:        CUDA0 model buffer size =  2048.00 MiB
load_tensors:        CUDA1 model buffer size =   100.50 MiB
llama_context: flash_attn            = auto
llama_context:  CUDA_Host  output buffer size =     0.58 MiB
llama_kv_cache:        CPU KV buffer size =    16.00 MiB
llama_kv_cache:      CUDA0 KV buffer size =    32.00 MiB
resolve_fused_ops: Flash Attention enabled
sched_reserve:      CUDA0 compute buffer size =   301.75 MiB
sched_reserve:      CUDA1 compute buffer size =   200.00 MiB
sched_reserve:  CUDA_Host compute buffer size =    13.01 MiB
"""


def test_the_place_of_everything_is_read_from_llama_cpps_lines() -> None:
    found = offload.placement(TWO_CARDS.splitlines())
    assert (found.total_layers, found.offloaded, found.flash) == (4, 3, True)
    assert found.layers == (("CUDA0", 2), ("CUDA1", 1))
    assert found.size("CUDA0") == round(2381.75 * MIB)
    assert found.size("CUDA1", "weights") == round(100.5 * MIB)
    assert found.size("", "work") == round(0.58 * MIB) + round(13.01 * MIB)
    assert found.lines() == (
        "2 of 4 layers on CUDA0 (NVIDIA GeForce RTX 4090): weights 2.00 GiB, KV 32.0 MiB, work 301.8 MiB",
        "1 of 4 layers on CUDA1 (NVIDIA GeForce RTX 3060): weights 100.5 MiB, work 200.0 MiB",
        "in memory: weights 1.27 GiB, KV 16.0 MiB, work 13.6 MiB",
    )
    assert all(offload.tells(line) for line in TWO_CARDS.splitlines() if line)


def test_apples_buffers_are_the_cards() -> None:
    found = offload.placement(
        [
            "llama_prepare_model_devices: using device MTL0 (Apple M3) (unknown id) - 10922 MiB free",
            "load_tensors: offloaded 37/37 layers to GPU",
            "load_tensors:  MTL0_Mapped model buffer size =  2375.91 MiB",
            "llama_kv_cache:       MTL0 KV buffer size =   144.00 MiB",
            "sched_reserve: MTL0_Private compute buffer size =   301.75 MiB",
        ]
    )
    assert [part.device for part in found.buffers] == ["MTL0"] * 3
    assert found.offloaded == 37


def test_a_count_without_lines_for_each_layer_is_believed() -> None:
    found = offload.placement(["load_tensors: offloaded 20/37 layers to GPU"])
    assert (found.layers, found.total_layers) == ((("GPU", 20),), 37)
    assert offload.placement(["load_tensors: offloaded 0/37 layers to GPU"]).layers == ()


def test_the_cpu_alone_is_said_too() -> None:
    found = offload.placement(
        [
            "load_tensors: layer   0 assigned to device CPU, is_swa = 0",
            "load_tensors:   CPU_Mapped model buffer size =     6.76 MiB",
            "llama_context: flash_attn            = disabled",
            "llama_kv_cache:        CPU KV buffer size =     2.66 MiB",
            "sched_reserve:        CPU compute buffer size =     8.54 MiB",
        ]
    )
    assert (found.layers, found.flash) == ((), False)
    assert found.lines() == ("all layers on the CPU: weights 6.8 MiB, KV 2.7 MiB, work 8.5 MiB",)


@pytest.mark.parametrize(
    ("lines", "flash"),
    [
        (["llama_context: flash_attn            = enabled"], True),
        (["llama_context: flash_attn            = disabled"], False),
        (["llama_context: flash_attn            = auto"], None),
        (
            [
                "llama_context: flash_attn            = auto",
                "resolve_fused_ops: Flash Attention not supported, set to disabled",
            ],
            False,
        ),
        ([], None),
    ],
)
def test_whether_flash_attention_is_on_is_what_llama_cpp_found(lines: list[str], flash: bool | None) -> None:
    assert offload.placement(lines).flash is flash


def test_what_says_nothing_of_places_is_nothing() -> None:
    assert offload.placement(["llama_model_loader: loaded meta data", "set_abort_callback: call", "缓冲"]) == Placement(
        0
    )
    assert not offload.tells("print_info: n_layer = 36")
    assert Placement(0, (), (Buffer("", "KV", 3),)).size("", "KV") == 3
