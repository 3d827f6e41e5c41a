"""A GGUF file with the real Qwen3-4B geometry at Q4_K_M and no weights: its data is a hole in the file.

In: a path. Out: a file of 2.5 GB that takes a few hundred kB of disk and gives the same buffers as the real one; with a
vocabulary also the same work. It computes nothing worth reading.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gguf
import numpy as np

from tests.engine import vocabulary

LAYERS, WIDTH, FFN, HEADS, KV_HEADS, HEAD, ROWS = 36, 2560, 9728, 32, 8, 128, 151_936


def write(path: Path, with_vocabulary: bool = False) -> Path:
    """Writes the file. The types are those that llama.cpp's quantizer chooses for Q4_K_M. An engine opens it only with
    the vocabulary, which takes a few seconds to make."""
    writer = gguf.GGUFWriter(path, "qwen3")
    _add_metadata(writer)
    if with_vocabulary:
        vocabulary.add_vocabulary(writer, vocabulary.FULL, ROWS)
    else:
        writer.add_tokenizer_model("no_vocab")
        writer.add_vocab_size(ROWS)
    four, six, full = gguf.GGMLQuantizationType.Q4_K, gguf.GGMLQuantizationType.Q6_K, gguf.GGMLQuantizationType.F32
    _add(writer, "token_embd.weight", six, ROWS, WIDTH)
    _add(writer, "output_norm.weight", full, WIDTH)
    for i in range(LAYERS):
        better = six if _more_bits(i) else four
        _add(writer, f"blk.{i}.attn_norm.weight", full, WIDTH)
        _add(writer, f"blk.{i}.attn_q.weight", four, HEADS * HEAD, WIDTH)
        _add(writer, f"blk.{i}.attn_k.weight", four, KV_HEADS * HEAD, WIDTH)
        _add(writer, f"blk.{i}.attn_v.weight", better, KV_HEADS * HEAD, WIDTH)
        _add(writer, f"blk.{i}.attn_output.weight", four, WIDTH, HEADS * HEAD)
        _add(writer, f"blk.{i}.attn_q_norm.weight", full, HEAD)
        _add(writer, f"blk.{i}.attn_k_norm.weight", full, HEAD)
        _add(writer, f"blk.{i}.ffn_norm.weight", full, WIDTH)
        _add(writer, f"blk.{i}.ffn_gate.weight", four, FFN, WIDTH)
        _add(writer, f"blk.{i}.ffn_up.weight", four, FFN, WIDTH)
        _add(writer, f"blk.{i}.ffn_down.weight", better, WIDTH, FFN)
    size = sum(gguf.GGUFWriter.ggml_pad(info.nbytes, 32) for table in writer.tensors for info in table.values())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    with path.open("r+b") as file:
        file.truncate(gguf.GGUFWriter.ggml_pad(path.stat().st_size, 32) + size)
    return path


def _add_metadata(writer: Any) -> None:
    writer.add_name("Qwen3-4B geometry without weights")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q4_K_M)
    writer.add_context_length(262_144)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FFN)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD)
    writer.add_value_length(HEAD)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(5_000_000.0)


def _more_bits(layer: int) -> bool:
    """llama.cpp's use_more_bits: the first and last eighth, and every third between them."""
    return layer < LAYERS // 8 or layer >= 7 * LAYERS // 8 or (layer - LAYERS // 8) % 3 == 2


def _add(writer: Any, name: str, kind: gguf.GGMLQuantizationType, *shape: int) -> None:
    block, size = gguf.GGML_QUANT_SIZES[kind]
    count = 1
    for n in shape:
        count *= n
    bytes_shape = (*shape[:-1], shape[-1] // block * size) if kind != gguf.GGMLQuantizationType.F32 else shape
    dtype = np.dtype(np.uint8 if block > 1 else np.float32)
    writer.add_tensor_info(name, bytes_shape, dtype, count // block * size, kind)
