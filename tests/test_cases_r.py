"""What public bug reports about llama.cpp runtimes came down to, each kind with the outcome that is right: windows, KV
types, long runs of one character, the penalty's window, prompts that only grow, builds without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from venus_edge import demo
from venus_edge.engine import Request, Sampling
from venus_edge.engine.llama import LlamaEngine
from venus_edge.engine.options import GIB, EngineOptions, check_memory, kv_bytes
from venus_edge.errors import ContextFull, EngineError, UsageError
from venus_edge.protocol import Piece, Trust, rendering
from venus_edge.values import Message

TINY = demo.HERE / "venus-tiny.gguf"
GREEDY = Sampling(temperature=0.0, presence_penalty=0.0, max_tokens=8)
FOUR_B = {
    "general.architecture": "qwen3",
    "qwen3.block_count": "36",
    "qwen3.embedding_length": "2560",
    "qwen3.attention.head_count": "32",
    "qwen3.attention.head_count_kv": "8",
    "qwen3.attention.key_length": "128",
    "qwen3.attention.value_length": "128",
}
WEIGHTS = 2_497_280_256


@pytest.fixture(scope="module")
def tiny() -> Iterator[LlamaEngine]:
    engine = LlamaEngine(TINY, EngineOptions(n_ctx=2_048, n_ctx_reading=0, n_threads=1))
    yield engine
    engine.close()


# -- KV types ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("k", "v"), [("q8_0", "q8_0"), ("q8_0", "q4_0"), ("f16", "q8_0"), ("q4_0", "q4_0")])
@pytest.mark.parametrize("flash", [None, True])
def test_a_quantized_v_has_flash_attention_without_being_told(k: str, v: str, flash: bool | None) -> None:
    options = EngineOptions(n_ctx=512, n_ctx_reading=0, type_k=k, type_v=v, flash_attention=flash, n_threads=1)
    assert options.flash == 1
    engine = LlamaEngine(TINY, options)
    assert list(engine.generate(Request([5, 6, 7], GREEDY)))
    engine.close()


def test_a_quantized_v_without_it_is_refused_by_a_sentence_that_names_both(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        LlamaEngine(tmp_path / "never-opened", EngineOptions(type_k="q8_0", flash_attention=False))
    assert "q8_0" in str(caught.value)
    assert "flash attention" in str(caught.value)


# -- windows ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("n_ctx", "kv", "gib", "free", "fits"),
    [
        (131_072, "f16", 18.0, 16.0, False),
        (131_072, "q8_0", 9.56, 16.0, True),
        (131_072, "q4_0", 5.06, 8.0, True),
        (262_144, "q8_0", 19.12, 24.0, True),
        (262_144, "f16", 36.0, 16.0, False),
    ],
)
def test_what_a_window_takes_is_known_before_it_is_opened(
    n_ctx: int, kv: str, gib: float, free: float, fits: bool
) -> None:
    options = EngineOptions(n_ctx=n_ctx, n_ctx_reading=0, type_k=kv)
    assert kv_bytes(options, FOUR_B) / GIB == pytest.approx(gib, abs=0.01)
    if fits:
        check_memory(options, FOUR_B, WEIGHTS, int(free * GIB))
        return
    with pytest.raises(EngineError, match=f"{n_ctx:,} tokens takes {gib:.1f} GiB.*smaller --context, or --kv-type"):
        check_memory(options, FOUR_B, WEIGHTS, int(free * GIB))


@pytest.mark.parametrize("n_ctx", [0, 1 << 27])
def test_no_window_is_left_to_llama_cpp(n_ctx: int) -> None:
    with pytest.raises(UsageError, match="--context"):
        LlamaEngine(TINY, EngineOptions(n_ctx=n_ctx))


@pytest.mark.parametrize("tokens", [449, 510, 511, 512, 600])
def test_a_prompt_that_leaves_a_handful_of_tokens_is_not_sampled_from(tokens: int) -> None:
    engine = LlamaEngine(TINY, EngineOptions(n_ctx=512, n_ctx_reading=0, n_threads=1))
    with pytest.raises(ContextFull, match=f"takes {tokens} of the window's 512 tokens"):
        engine.generate(Request([7] * tokens, Sampling()))
    assert engine.stats.evaluated_tokens == 0
    engine.close()


# -- text -------------------------------------------------------------------------------------------------------------

RUNS = ["=" * 90 + "\n", "\t" * 40 + "x", " " * 75 + "y", "#" * 64, "~" * 100, "——" * 50, "……" * 40,
        "class A:\n" + " " * 44 + "pass\n", "| " + "-" * 70 + " |", "。" * 70, "灯" * 80]  # fmt: skip


@pytest.mark.parametrize("text", RUNS)
def test_long_runs_of_a_character_come_back_whole(tiny: LlamaEngine, text: str) -> None:
    ids = tiny.tokenize([Piece(text, Trust.OUTSIDE)])
    assert b"".join(tiny.vocabulary.piece(token) for token in ids).decode() == text


# -- the penalty ------------------------------------------------------------------------------------------------------


def test_the_penalty_counts_the_whole_turn_and_nothing_else(tiny: LlamaEngine) -> None:
    """200 tokens under a penalty without mercy: no token twice, however far back, and those of the prompt are free."""
    prompt = tiny.tokenize([Piece("Which lighthouse is the oldest? 哪座灯塔最古老？", Trust.OUTSIDE)])
    settings = Sampling(temperature=0.0, presence_penalty=1e6, max_tokens=200)
    list(tiny.generate(Request(prompt, settings)))
    written = tiny.cached()[len(prompt) :]
    assert len(set(written)) == len(written)
    assert Sampling().min_p == 0.0


# -- prompts that only grow -------------------------------------------------------------------------------------------

REPLY = "the first thought\n\n\n</think>\n<tool_call>\n{}\n</tool_call>"


@pytest.mark.parametrize(
    "told",
    [
        "<tool_response>\nres\n</tool_response>",
        "<tool_response>\n结果\n</tool_response>\n",
        " <tool_response>\nres\n</tool_response>",
        "<tool_response>\nres\n</tool_response>\nAnswer now.",
        "The limit is reached: answer now.",
    ],
)
def test_every_prompt_keeps_the_thought_and_extends_the_last_one(tiny: LlamaEngine, told: str) -> None:
    opening = (Message("system", "S"), Message("user", "Q"))
    call = REPLY.replace("{}", '{"name": "search", "arguments": {"query": ["a"]}}')
    written = tiny.tokenize([*rendering.render(opening), Piece(call, Trust.MODEL)])
    conversation = (*opening, Message("assistant", f"<think>\n{call}"), Message("user", told))
    second = tiny.tokenize(rendering.render(conversation, as_generated=True))
    assert b"the first thought" in b"".join(tiny.vocabulary.piece(token) for token in second)
    assert second[: len(written)] == written


# -- a GPU ------------------------------------------------------------------------------------------------------------


def test_a_gpu_that_the_build_cannot_use_is_said_once_and_the_cpu_goes_on() -> None:
    engine = LlamaEngine(TINY, EngineOptions(n_ctx=512, n_ctx_reading=0, n_gpu_layers=-1, n_threads=1))
    if engine.vocabulary.lib.llama_supports_gpu_offload():
        pytest.skip("this build can use a GPU")
    assert sum("pip install" in note and "-DGGML_CUDA=on" in note for note in engine.notes) == 1
    assert not any("CUBLAS" in note for note in engine.notes)
    assert list(engine.generate(Request([5, 6, 7], GREEDY)))
    engine.close()
