"""Toy Qwen3 checkpoints for the tests, healthy unless told otherwise: stdlib and numpy.

The shape keeps what is odd in Qwen3-4B: head_dim (128) is not hidden / heads (64), grouped K/V heads, tied embeddings,
rows without a token, control tokens beside ordinary added ones. Rows are multiples of 256, as K-quants want them.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from venus_convert.bpe import byte_alphabet
from venus_convert.vocab import QWEN2_PATTERN

from venus_edge.errors import VenusError

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, LAYERS, FFN, ROWS = 256, 4, 2, 128, 2, 512, 288
MERGES = ("Ġ t", "h e", "Ġt he", "i n", "e r", "Ġ Ġ", "a n", "an d")
CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
ORDINARY = (
    "<tool_call>",
    "</tool_call>",
    "<|fim_prefix|>",
    "<tool_response>",
    "</tool_response>",
    "<think>",
    "</think>",
)
FIRST_ADDED = 256 + len(MERGES)
END_OF_TEXT, END_OF_TURN = FIRST_ADDED, FIRST_ADDED + 2
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"

Entry = tuple[str, tuple[int, ...], bytes]  # safetensors' dtype, shape, bytes


def bf16(values: npt.ArrayLike) -> bytes:
    """The nearest bf16 values, ties away from zero."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x8000) >> 16).astype("<u2").tobytes()


def matrix(seed: int, *shape: int) -> Entry:
    return "BF16", shape, bf16(np.random.default_rng(seed).standard_normal(shape) * 0.05)


def ones(size: int) -> Entry:
    return "BF16", (size,), bf16(np.ones(size))


def weights(head: bool = False) -> dict[str, Entry]:
    """The tensors by their names in transformers, in the order that it saves them in."""
    q, kv = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    found = {"model.embed_tokens.weight": matrix(0, ROWS, HIDDEN)}
    for layer in range(LAYERS):
        shapes = {
            "self_attn.q_proj": (q, HIDDEN), "self_attn.k_proj": (kv, HIDDEN), "self_attn.v_proj": (kv, HIDDEN),
            "self_attn.o_proj": (HIDDEN, q), "mlp.gate_proj": (FFN, HIDDEN), "mlp.up_proj": (FFN, HIDDEN),
            "mlp.down_proj": (HIDDEN, FFN),
        }  # fmt: skip
        norms = {"input_layernorm": HIDDEN, "post_attention_layernorm": HIDDEN}
        norms |= {"self_attn.q_norm": HEAD_DIM, "self_attn.k_norm": HEAD_DIM}
        for seed, (name, shape) in enumerate(shapes.items()):
            found[f"model.layers.{layer}.{name}.weight"] = matrix(10 * layer + seed + 1, *shape)
        found |= {f"model.layers.{layer}.{name}.weight": ones(size) for name, size in norms.items()}
    found["model.norm.weight"] = ones(HIDDEN)
    if head:
        found["lm_head.weight"] = matrix(99, ROWS, HIDDEN)
    return found


def config() -> dict[str, Any]:
    return {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": HIDDEN, "head_dim": HEAD_DIM,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "num_hidden_layers": LAYERS,
        "intermediate_size": FFN, "vocab_size": ROWS, "max_position_embeddings": 262144, "rope_theta": 5000000,
        "rope_scaling": None, "rms_norm_eps": 1e-6, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "bos_token_id": END_OF_TEXT, "eos_token_id": END_OF_TURN,
    }  # fmt: skip


def base_vocab() -> dict[str, int]:
    tokens = [*byte_alphabet(), *(merge.replace(" ", "") for merge in MERGES)]
    return {token: i for i, token in enumerate(tokens)}


def added_tokens() -> list[dict[str, Any]]:
    return [
        {"id": FIRST_ADDED + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False, "special": text in CONTROL}
        for i, text in enumerate((*CONTROL, *ORDINARY))
    ]  # fmt: skip


def tokenizer(merges: list[Any] | None = None) -> dict[str, Any]:
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False, "use_regex": False}
    split = {"type": "Split", "pattern": {"Regex": QWEN2_PATTERN}, "behavior": "Isolated", "invert": False}
    return {
        "version": "1.0", "added_tokens": added_tokens(), "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "vocab": base_vocab(), "merges": list(MERGES) if merges is None else merges},
    }  # fmt: skip


def tokenizer_config() -> dict[str, Any]:
    return {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "bos_token": None, "chat_template": TEMPLATE}


def safetensors(tensors: Mapping[str, Entry]) -> bytes:
    """A safetensors file."""
    head: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, (dtype, shape, data) in tensors.items():
        head[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


def checkpoint(
    folder: Path,
    *,
    tensors: Mapping[str, Entry] | None = None,
    shards: int = 1,
    without: tuple[str, ...] = (),
    files: Mapping[str, bytes | str | dict[str, Any]] | None = None,
    **changes: Any,
) -> Path:
    """A checkpoint folder. `changes` go into config.json; `without` names files left out; `files` are written last."""
    folder.mkdir(parents=True, exist_ok=True)
    tables = {
        "config.json": config() | changes,
        "generation_config.json": {"eos_token_id": [END_OF_TURN, END_OF_TEXT]},
        "tokenizer.json": tokenizer(),
        "tokenizer_config.json": tokenizer_config(),
    }
    _weights(folder, dict(weights() if tensors is None else tensors), shards)
    for name, data in {**tables, **(files or {})}.items():
        text = json.dumps(data, ensure_ascii=False) if isinstance(data, dict) else data
        (folder / name).write_bytes(text.encode() if isinstance(text, str) else text)
    for name in without:
        (folder / name).unlink()
    return folder


def refusal(action: Callable[[], object]) -> str:
    """The one line that a refused conversion says."""
    with pytest.raises(VenusError) as caught:
        action()
    said = str(caught.value)
    assert said
    assert "\n" not in said
    return said


def _weights(folder: Path, tensors: dict[str, Entry], shards: int) -> None:
    if shards == 1:
        (folder / "model.safetensors").write_bytes(safetensors(tensors))
        return
    where: dict[str, str] = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        part = {key: tensors[key] for key in list(tensors)[shard::shards]}
        (folder / name).write_bytes(safetensors(part))
        where |= dict.fromkeys(part, name)
    index = {"metadata": {}, "weight_map": where}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
