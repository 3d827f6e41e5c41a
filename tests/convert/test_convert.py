"""A whole conversion: read back by the gguf package, and loaded by llama.cpp."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from venus_convert.convert import Options, convert, prepare
from venus_convert.metadata import Provenance
from venus_convert.numbers import decode
from venus_convert.read import read_gguf
from venus_convert.values import TensorType
from venus_convert.verify import check_forward, check_tokenizer

from tests.convert.checkpoints import (
    END_OF_TEXT,
    END_OF_TURN,
    FFN,
    HEAD_DIM,
    HIDDEN,
    MERGES,
    TEMPLATE,
    Entry,
    bf16,
    checkpoint,
    refusal,
    weights,
)
from venus_edge.errors import ModelError

DOWN = "model.layers.0.mlp.down_proj.weight"


def converted(folder: Path, outtype: TensorType | None = None, options: Options | None = None, **source: Any) -> Path:
    out = folder / "out.gguf"
    convert(prepare(checkpoint(folder / "model", **source), options or Options(outtype)), out)
    return out


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return converted(tmp_path_factory.mktemp("plain"))


def test_every_matrix_has_the_checkpoints_bits_and_every_norm_its_values(plain: Path) -> None:
    found = {tensor.name: tensor for tensor in gguf.GGUFReader(plain).tensors}
    assert len(found) == len(weights())
    for name, (_, shape, data) in weights().items():
        tensor = found[gguf_name(name)]
        assert tuple(tensor.shape[::-1]) == shape
        if len(shape) == 2:
            assert (tensor.tensor_type.name, tensor.data.tobytes()) == ("BF16", data)
        else:
            assert tensor.tensor_type.name == "F32"
            assert np.array_equal(tensor.data, decode(np.frombuffer(data, np.uint8), "BF16"))


def gguf_name(name: str) -> str:  # a table written as a function
    fixed = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
    parts = {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
        "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
        "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    }  # fmt: skip
    stem = name.removesuffix(".weight")
    if stem in fixed:
        return f"{fixed[stem]}.weight"
    _, _, layer, part = stem.split(".", 3)
    return f"blk.{layer}.{parts[part]}.weight"


def test_the_pairs_are_what_llama_cpp_reads(plain: Path) -> None:
    found = {key: field.contents() for key, field in gguf.GGUFReader(plain).fields.items()}
    pairs = {key: value for key, value in found.items() if key.startswith(("qwen3.", "tokenizer.", "venus."))}
    tokens, types = pairs.pop("tokenizer.ggml.tokens"), pairs.pop("tokenizer.ggml.token_type")
    assert (len(tokens), len(types)) == (288, 288)
    assert pairs.pop("venus.converter").startswith("venus-edge ")
    assert pairs == {
        "qwen3.block_count": 2,
        "qwen3.context_length": 262144,
        "qwen3.embedding_length": HIDDEN,
        "qwen3.feed_forward_length": FFN,
        "qwen3.attention.head_count": 4,
        "qwen3.attention.head_count_kv": 2,
        "qwen3.attention.key_length": HEAD_DIM,
        "qwen3.attention.value_length": HEAD_DIM,
        "qwen3.attention.layer_norm_rms_epsilon": float(np.float32(1e-6)),
        "qwen3.rope.freq_base": 5e6,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "qwen2",
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.eos_token_id": END_OF_TURN,
        "tokenizer.ggml.padding_token_id": END_OF_TEXT,
        "tokenizer.ggml.bos_token_id": END_OF_TEXT,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.add_eos_token": False,
        "tokenizer.chat_template": TEMPLATE,
        "venus.stop_token_ids": [END_OF_TURN, END_OF_TEXT],
        "venus.chat_template.sha256": hashlib.sha256(TEMPLATE.encode()).hexdigest(),
    }
    general = {key: found[f"general.{key}"] for key in ("architecture", "type", "file_type", "quantization_version")}
    assert general == {"architecture": "qwen3", "type": "model", "file_type": 32, "quantization_version": 2}


def test_our_reader_reads_what_the_gguf_package_reads(plain: Path) -> None:
    theirs, ours = gguf.GGUFReader(plain), read_gguf(plain)
    fields = {key: field.contents() for key, field in theirs.fields.items() if not key.startswith("GGUF.")}
    assert ours.pairs == fields
    assert [(t.name, t.type_name, t.shape, t.offset, t.nbytes) for t in ours.tensors.values()] == [
        (t.name, t.tensor_type.name, tuple(map(int, t.shape[::-1])), t.data_offset, t.n_bytes) for t in theirs.tensors
    ]


def test_llama_cpp_loads_it_tokenizes_as_the_checkpoint_does_and_computes(plain: Path) -> None:
    file = read_gguf(plain)
    checks = [check_tokenizer(file), check_forward(file)]
    assert [check.ok for check in checks] == [True, True], checks


def test_shards_and_their_order_do_not_change_a_byte(tmp_path: Path) -> None:
    backwards = dict(reversed(list(weights().items())))
    whole = converted(tmp_path / "a").read_bytes()
    assert converted(tmp_path / "b", shards=3).read_bytes() == whole
    assert (
        converted(tmp_path / "c", shards=2, tensors=backwards, without=("model.safetensors.index.json",)).read_bytes()
        == whole
    )


@pytest.mark.parametrize(
    ("outtype", "kinds", "error"),
    [
        (TensorType.F32, {"F32"}, 0.0), (TensorType.F16, {"F16", "F32"}, 0.0005),
        (TensorType.Q8_0, {"Q8_0", "F32"}, 0.008),
    ],
)  # fmt: skip
def test_other_types_keep_the_values_within_their_rounding(
    outtype: TensorType, kinds: set[str], error: float, tmp_path: Path
) -> None:
    reader = gguf.GGUFReader(converted(tmp_path, outtype))
    found = {tensor.name: tensor for tensor in reader.tensors}
    assert {tensor.tensor_type.name for tensor in reader.tensors} == kinds
    for name, (_, shape, data) in weights().items():
        tensor = found[gguf_name(name)]
        wanted = decode(np.frombuffer(data, np.uint8), "BF16").reshape(shape)
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        assert np.abs(values - wanted).max() <= error * np.abs(wanted).max()


@pytest.mark.parametrize(("dtype", "kind"), [("BF16", "BF16"), ("F16", "F16"), ("F32", "F32"), ("F64", "F32")])
def test_the_checkpoints_own_type_is_kept_unless_another_is_asked(dtype: str, kind: str, tmp_path: Path) -> None:
    reader = gguf.GGUFReader(
        converted(tmp_path, tensors={name: stored(value, dtype) for name, value in weights().items()})
    )
    matrices = [tensor.tensor_type.name for tensor in reader.tensors if len(tensor.shape) == 2]
    assert set(matrices) == {kind}


def stored(entry: Entry, dtype: str) -> Entry:
    _, shape, data = entry
    values = decode(np.frombuffer(data, np.uint8), "BF16")
    forms = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
    return dtype, shape, data if dtype == "BF16" else values.astype(forms[dtype]).tobytes()


@pytest.mark.parametrize("outtype", list(TensorType))
def test_a_nan_is_refused_by_tensor_name_and_leaves_nothing(outtype: TensorType, tmp_path: Path) -> None:
    spoiled = weights() | {"model.norm.weight": ("BF16", (HIDDEN,), bf16(np.full(HIDDEN, np.nan)))}
    said = refusal(lambda: converted(tmp_path, outtype, tensors=spoiled))
    assert said.startswith("model.norm.weight holds NaN or infinity")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_weight_beyond_f16_is_refused_for_f16_and_kept_in_bf16(tmp_path: Path) -> None:
    large = weights() | {DOWN: ("BF16", (HIDDEN, FFN), bf16(np.full((HIDDEN, FFN), 1e5)))}
    assert refusal(lambda: converted(tmp_path / "a", TensorType.F16, tensors=large)).startswith(f"{DOWN} holds 99840")
    assert converted(tmp_path / "b", TensorType.BF16, tensors=large).exists()


def test_what_the_registry_knows_is_written_for_the_runtime(tmp_path: Path) -> None:
    known = Provenance("DR-Venus 4B (RL)", "rl", "inclusionAI/DR-Venus-4B-RL", "0" * 40, "You are\n")
    card = "---\nlicense: apache-2.0\nbase_model: Qwen/Qwen3-4B-Thinking-2507\n---\n# A model\n"
    pairs = read_gguf(converted(tmp_path, options=Options(known=known), files={"README.md": card})).pairs
    expected = {
        "general.name": "DR-Venus 4B (RL)",
        "general.license": "apache-2.0",
        "general.size_label": "1.6M",
        "general.base_model.0.repo_url": "https://huggingface.co/Qwen/Qwen3-4B-Thinking-2507",
        "general.source.repo_url": "https://huggingface.co/inclusionAI/DR-Venus-4B-RL",
        "venus.dialect": "rl",
        "venus.source.repo": "inclusionAI/DR-Venus-4B-RL",
        "venus.source.revision": "0" * 40,
        "venus.system_prompt.sha256": hashlib.sha256(b"You are\n").hexdigest(),
    }
    assert {key: pairs.get(key) for key in expected} == expected


def test_the_revision_is_told_by_a_folder_of_the_hubs_cache(tmp_path: Path) -> None:
    commit = "ab" * 20
    folder = checkpoint(tmp_path / "models--org--name" / "snapshots" / commit)
    values = {pair.key: pair.value for pair in prepare(folder).pairs}
    assert values["venus.source.revision"] == commit


@pytest.mark.parametrize("size", [0, 3, 20, 200, 5000, -1, -4096])
def test_a_cut_gguf_is_refused_by_our_reader(size: int, plain: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(plain.read_bytes()[:size])
    with pytest.raises(ModelError):
        read_gguf(cut)
