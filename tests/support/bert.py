"""BERT IN GGUF, as llama.cpp reads it: for tests, one made by hand; for measurements, a published checkpoint.

python -m tests.support.bert CHECKPOINT_DIR OUT.gguf      (model.safetensors, config.json and vocab.txt are in it)
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFWriter, PoolingType, TokenType

Tensor = npt.NDArray[np.float32]
Tensors = Mapping[str, Tensor]

_OUTER = {
    "embeddings.word_embeddings.weight": "token_embd.weight",
    "embeddings.position_embeddings.weight": "position_embd.weight",
    "embeddings.token_type_embeddings.weight": "token_types.weight",
    "embeddings.LayerNorm.weight": "token_embd_norm.weight",
    "embeddings.LayerNorm.bias": "token_embd_norm.bias",
}
_INNER = {
    "attention.self.query": "attn_q",
    "attention.self.key": "attn_k",
    "attention.self.value": "attn_v",
    "attention.output.dense": "attn_output",
    "attention.output.LayerNorm": "attn_output_norm",
    "intermediate.dense": "ffn_up",
    "output.dense": "ffn_down",
    "output.LayerNorm": "layer_output_norm",
}
CONTROL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def write(path: Path, tensors: Tensors, words: Sequence[str], heads: int, name: str) -> None:
    """Matrices in f16, all else in f32. `words` is the vocabulary in WordPiece's own writing, ##ing."""
    width, inner = tensors["embeddings.word_embeddings.weight"].shape[1], "encoder.layer.0.intermediate.dense.weight"
    writer = GGUFWriter(str(path), "bert")
    writer.add_name(name)
    writer.add_block_count(sum(key.endswith("attention.self.query.weight") for key in tensors))
    writer.add_context_length(tensors["embeddings.position_embeddings.weight"].shape[0])
    writer.add_embedding_length(width)
    writer.add_feed_forward_length(tensors[inner].shape[0])
    writer.add_head_count(heads)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(PoolingType.MEAN)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_type_count(2)
    writer.add_token_list([_written(word) for word in words])
    writer.add_token_types([TokenType.CONTROL if word in CONTROL else TokenType.NORMAL for word in words])
    writer.add_pad_token_id(words.index("[PAD]"))
    writer.add_unk_token_id(words.index("[UNK]"))
    writer.add_bos_token_id(words.index("[CLS]"))
    writer.add_sep_token_id(words.index("[SEP]"))
    writer.add_mask_token_id(words.index("[MASK]"))
    for key, tensor in tensors.items():
        is_matrix = tensor.ndim == 2 and key not in (*list(_OUTER)[1:3],)
        stored = tensor.astype(np.float16 if is_matrix else np.float32)
        kind = GGMLQuantizationType.F16 if is_matrix else GGMLQuantizationType.F32
        writer.add_tensor(_named(key), stored, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _written(word: str) -> str:
    if word in CONTROL:
        return word
    return word[2:] if word.startswith("##") else "\u2581" + word


def _named(key: str) -> str:
    if key in _OUTER:
        return _OUTER[key]
    number, _, rest = key.removeprefix("encoder.layer.").partition(".")
    part, _, kind = rest.rpartition(".")
    return f"blk.{number}.{_INNER[part]}.{kind}"


def by_hand(path: Path, meanings: Sequence[Sequence[str]]) -> None:
    """A model of one layer that changes nothing: a text is the mean of its words' directions, and words of one group of
    `meanings` have the same."""
    width, made = 32, np.random.default_rng(1)
    words = [*CONTROL, *(word for group in meanings for word in group)]
    rows = np.zeros((len(words), width), dtype=np.float32)
    rows[CONTROL.index("[UNK]")] = made.normal(size=width)
    at = len(CONTROL)
    for group in meanings:
        rows[at : at + len(group)] = made.normal(size=width)
        at += len(group)
    layer = {f"encoder.layer.0.{part}": (width, width) for part in _INNER if "LayerNorm" not in part}
    tensors: dict[str, Tensor] = {f"{part}.weight": np.zeros(shape, dtype=np.float32) for part, shape in layer.items()}
    tensors |= {f"{part}.bias": np.zeros(width, dtype=np.float32) for part in layer}
    for part in ("embeddings", "encoder.layer.0.attention.output", "encoder.layer.0.output"):
        tensors[f"{part}.LayerNorm.weight"] = np.ones(width, dtype=np.float32)
        tensors[f"{part}.LayerNorm.bias"] = np.zeros(width, dtype=np.float32)
    tensors["embeddings.word_embeddings.weight"] = rows
    tensors["embeddings.position_embeddings.weight"] = np.zeros((64, width), dtype=np.float32)
    tensors["embeddings.token_type_embeddings.weight"] = np.zeros((2, width), dtype=np.float32)
    write(path, tensors, words, 2, "by hand")


def _checkpoint(folder: Path) -> tuple[Tensors, list[str], int]:
    data = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(data[:8], "little")
    tensors: dict[str, Tensor] = {}
    for key, entry in json.loads(data[8 : 8 + size]).items():
        if key.startswith(("embeddings.", "encoder.")) and entry["dtype"] == "F32":
            start, end = (8 + size + offset for offset in entry["data_offsets"])
            tensors[key] = np.frombuffer(data[start:end], dtype=np.float32).reshape(entry["shape"])
    words = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    return tensors, words, json.loads((folder / "config.json").read_text())["num_attention_heads"]


if __name__ == "__main__":
    source, out = map(Path, sys.argv[1:])
    write(out, *_checkpoint(source), name=source.name)
