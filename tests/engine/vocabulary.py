"""The Qwen vocabulary that the dashscope package carries (or a beginning of it), and GGUF files made of it.

`write_vocabulary` gives a file without weights; `write_model` a Qwen3 with random ones, small enough to run in tests.
"""

from __future__ import annotations

import base64
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np

CONTROL = [f"<|{name}|>" for name in (
    "endoftext", "im_start", "im_end", "object_ref_start", "object_ref_end", "box_start", "box_end", "quad_start",
    "quad_end", "vision_start", "vision_end", "vision_pad", "image_pad", "video_pad",
)]  # fmt: skip
USER_DEFINED = [
    "<tool_call>", "</tool_call>", "<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>", "<|fim_pad|>", "<|repo_name|>",
    "<|file_sep|>", "<tool_response>", "</tool_response>", "<think>", "</think>",
]  # fmt: skip
FULL = 151_643
PADDED = 151_936  # rows of the real embedding; the last 267 have no token


@dataclass(frozen=True)
class Words:
    """Byte sequences in rank order: the vocabulary before the added tokens."""

    tokens: list[bytes]

    @property
    def merges(self) -> list[tuple[bytes, bytes]]:
        ranks = {token: rank for rank, token in enumerate(self.tokens)}
        return [_halves(token, ranks) for token in self.tokens if len(token) > 1]


def _halves(token: bytes, ranks: dict[bytes, int]) -> tuple[bytes, bytes]:
    """The two tokens that merge into this one: merging by rank, with only the ranks below its own."""
    parts, limit = [token[i : i + 1] for i in range(len(token))], ranks[token]
    while len(parts) > 2:
        rank, at = min((ranks.get(parts[i] + parts[i + 1], limit), i) for i in range(len(parts) - 1))
        if rank >= limit:
            break
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    left, right = parts
    return left, right


def words(count: int = FULL) -> Words:
    spec = importlib.util.find_spec("dashscope")
    assert spec is not None
    assert spec.submodule_search_locations
    path = Path(spec.submodule_search_locations[0]) / "resources" / "qwen.tiktoken"
    pairs = (line.split() for line in path.read_bytes().splitlines())
    table = {int(rank): base64.b64decode(token) for token, rank in pairs}
    return Words([table[rank] for rank in range(count)])


def _letters() -> dict[int, str]:
    """GPT-2's alphabet: a printable character for every byte."""
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in kept]
    return {byte: chr(byte) for byte in kept} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def add_vocabulary(writer: Any, count: int, pad_to: int) -> int:
    letters = _letters()

    def spelled(token: bytes) -> str:
        return "".join(letters[byte] for byte in token)

    vocabulary = words(count)
    texts = [spelled(token) for token in vocabulary.tokens]
    types = [gguf.TokenType.NORMAL] * count
    texts += CONTROL + USER_DEFINED
    types += [gguf.TokenType.CONTROL] * len(CONTROL) + [gguf.TokenType.USER_DEFINED] * len(USER_DEFINED)
    spare = max(0, pad_to - len(texts))
    texts += [f"[PAD{len(texts) + i}]" for i in range(spare)]
    types += [gguf.TokenType.UNUSED] * spare
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(texts)
    writer.add_token_types(types)
    writer.add_token_merges([f"{spelled(a)} {spelled(b)}" for a, b in vocabulary.merges])
    writer.add_eos_token_id(count + CONTROL.index("<|im_end|>"))
    writer.add_pad_token_id(count)
    writer.add_add_bos_token(False)
    return len(texts)


def _close(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_vocabulary(path: Path, count: int = FULL) -> Path:
    """A GGUF that holds a vocabulary and nothing else; open it with vocab_only."""
    writer = gguf.GGUFWriter(path, "qwen3")
    _add_geometry(writer, Geometry())
    add_vocabulary(writer, count, PADDED if count == FULL else 0)
    _close(writer)
    return path


def _add_none(writer: Any, rows: int = 64) -> int:
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(rows)
    return rows


@dataclass(frozen=True)
class Geometry:
    layers: int = 2
    width: int = 64
    heads: int = 4
    kv_heads: int = 2
    head: int = 32  # a block of q8_0 and q4_0
    ffn: int = 128
    context: int = 8_192


def _add_geometry(writer: Any, size: Geometry) -> None:
    writer.add_name("random")
    writer.add_context_length(size.context)
    writer.add_embedding_length(size.width)
    writer.add_block_count(size.layers)
    writer.add_feed_forward_length(size.ffn)
    writer.add_head_count(size.heads)
    writer.add_head_count_kv(size.kv_heads)
    writer.add_key_length(size.head)
    writer.add_value_length(size.head)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(5_000_000.0)


def write_model(path: Path, template: str, count: int = 1_024, size: Geometry = Geometry(), seed: int = 0) -> Path:
    """A Qwen3 with random weights: it writes nonsense, but differently for every prompt. `count` 0: no tokenizer."""
    writer = gguf.GGUFWriter(path, "qwen3")
    _add_geometry(writer, size)
    rows = add_vocabulary(writer, count, 0) if count else _add_none(writer)
    writer.add_chat_template(template)
    random = np.random.default_rng(seed)

    def add(name: str, *shape: int) -> None:
        scale = 1.0 if len(shape) == 1 else shape[1] ** -0.5
        values = np.ones(shape) if len(shape) == 1 else random.standard_normal(shape) * scale
        writer.add_tensor(name, values.astype(np.float32))

    add("token_embd.weight", rows, size.width)
    add("output_norm.weight", size.width)
    for i in range(size.layers):
        add(f"blk.{i}.attn_norm.weight", size.width)
        add(f"blk.{i}.attn_q.weight", size.heads * size.head, size.width)
        add(f"blk.{i}.attn_k.weight", size.kv_heads * size.head, size.width)
        add(f"blk.{i}.attn_v.weight", size.kv_heads * size.head, size.width)
        add(f"blk.{i}.attn_output.weight", size.width, size.heads * size.head)
        add(f"blk.{i}.attn_q_norm.weight", size.head)
        add(f"blk.{i}.attn_k_norm.weight", size.head)
        add(f"blk.{i}.ffn_norm.weight", size.width)
        add(f"blk.{i}.ffn_gate.weight", size.ffn, size.width)
        add(f"blk.{i}.ffn_up.weight", size.ffn, size.width)
        add(f"blk.{i}.ffn_down.weight", size.width, size.ffn)
    _close(writer)
    return path
