"""Names, shapes and the tied head: what is stripped is said, what is unknown is refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from venus_convert.convert import Plan, prepare
from venus_convert.tensors import unwrap
from venus_convert.values import TensorType

from tests.convert.checkpoints import FFN, HIDDEN, ROWS, Entry, bf16, checkpoint, matrix, ones, refusal, weights

UP = "model.layers.0.mlp.up_proj.weight"


def planned(tmp_path: Path, tensors: dict[str, Entry] | None = None, **changes: Any) -> Plan:
    return prepare(checkpoint(tmp_path / "model", tensors=tensors, **changes))


def names(plan: Plan) -> list[str]:
    return [tensor.name for tensor in plan.tensors]


def renamed(prefix: str, drop: str = "") -> dict[str, Entry]:
    return {prefix + name.removeprefix(drop): value for name, value in weights().items()}


@pytest.mark.parametrize(
    ("name", "bare", "wrapper"),
    [
        (UP, UP, ""),
        ("lm_head.weight", "lm_head.weight", ""),
        (f"_fsdp_wrapped_module.{UP}", UP, "_fsdp_wrapped_module."),
        ("model.layers.0._fsdp_wrapped_module.mlp.up_proj.weight", UP, "_fsdp_wrapped_module."),
        ("model.layers.0._checkpoint_wrapped_module.mlp.up_proj.weight", UP, "_checkpoint_wrapped_module."),
        (f"_orig_mod.{UP}", UP, "_orig_mod."),
        (f"module._orig_mod.{UP}", UP, "_orig_mod."),
        (f"module.{UP}", UP, "module."),
        (f"base_model.model.{UP}", UP, "base_model.model."),
        ("base_model.model.lm_head.weight", "lm_head.weight", "base_model.model."),
        (f"pretrained_model.{UP}", UP, "pretrained_model."),
        (f"language_model.{UP}", UP, "language_model."),
        ("language_model.lm_head.weight", "lm_head.weight", "language_model."),
        ("model.language_model.layers.0.mlp.up_proj.weight", UP, "model.language_model."),
        (f"model.{UP}", UP, "model."),
        ("model.lm_head.weight", "lm_head.weight", "model."),
        ("layers.0.mlp.up_proj.weight", UP, ""),
        ("teacher.model.norm.weight", "teacher.model.norm.weight", ""),
    ],
)
def test_only_known_wrappers_are_taken_off(name: str, bare: str, wrapper: str) -> None:
    assert unwrap(name) == (bare, wrapper)


@pytest.mark.parametrize(
    ("prefix", "drop"),
    [
        ("_fsdp_wrapped_module.", ""), ("module.", ""), ("base_model.model.", ""), ("_orig_mod.", ""),
        ("language_model.", ""), ("model.language_model.", "model."), ("model.", ""),
    ],
)  # fmt: skip
def test_a_wrapped_checkpoint_gives_the_same_tensors_and_one_note(prefix: str, drop: str, tmp_path: Path) -> None:
    plain, wrapped = planned(tmp_path / "a"), planned(tmp_path / "b", renamed(prefix, drop))
    assert names(wrapped) == names(plain)
    assert wrapped.notes == (f"wrapper {prefix!r} stripped from tensor names",)


def test_names_without_their_first_part_are_completed(tmp_path: Path) -> None:
    bare = planned(tmp_path / "b", renamed("", "model."))
    assert names(bare) == names(planned(tmp_path / "a"))
    assert bare.notes == ("tensor names lack 'model.': added",)


def test_what_training_left_is_dropped_and_said_once_a_kind(tmp_path: Path) -> None:
    extra: dict[str, Entry] = {
        f"model.layers.{i}.self_attn.rotary_emb.inv_freq": ("F32", (64,), bytes(256)) for i in range(2)
    }
    extra |= {"v_head.summary.weight": matrix(1, 1, HIDDEN), "v_head.summary.bias": ones(1)}
    plan = planned(tmp_path, weights() | extra)
    assert names(plan) == names(planned(tmp_path / "plain"))
    assert plan.notes == (
        "rotary buffers dropped (model.layers.0.self_attn.rotary_emb.inv_freq)",
        "a value head left by training dropped (v_head.summary.weight)",
    )


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight", "an unmerged PEFT adapter"),
        ("model.layers.0.self_attn.q_proj.lora_magnitude_vector.weight", "an unmerged PEFT adapter"),
        ("base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight", "still wrapped by PEFT"),
        ("lm_head.modules_to_save.default.weight", "still wrapped by PEFT"),
        ("model.layers.0.mlp.up_proj.qweight", "GPTQ or AWQ weights"),
        ("model.layers.0.mlp.up_proj.weight.absmax", "bitsandbytes weights"),
        ("model.layers.0.mlp.up_proj.weight.quant_state.bitsandbytes__nf4", "bitsandbytes weights"),
        ("model.layers.0.mlp.up_proj.SCB", "bitsandbytes weights"),
        ("model.layers.0.mlp.up_proj.weight_packed", "packed low-bit weights"),
        ("visual.blocks.0.attn.qkv.weight", "a vision or audio part"),
        ("model.visual.blocks.0.norm1.weight", "a vision or audio part"),
        ("model.layers.0.mlp.experts.0.up_proj.weight", "a mixture of experts"),
        ("score.weight", "a reward or classification head"),
        ("model.layers.0.self_attn.q_proj.bias", "a bias"),
        ("model.layers.2.mlp.up_proj.weight", "beyond the 2 layers that config.json names"),
        ("model.layers.0.mlp.side_proj.weight", "not a tensor of a dense Qwen3"),
        ("teacher.model.norm.weight", "not a tensor of a dense Qwen3"),
        ("optimizer.state.exp_avg", "not a tensor of a dense Qwen3"),
    ],
)
def test_what_cannot_be_converted_is_refused_by_its_name(name: str, reason: str, tmp_path: Path) -> None:
    said = refusal(lambda: planned(tmp_path, weights() | {name: ones(8)}))
    assert said.startswith(f"{name} ")
    assert reason in said


def test_two_names_for_one_tensor_are_refused_by_both(tmp_path: Path) -> None:
    said = refusal(lambda: planned(tmp_path, weights() | {f"module.{UP}": weights()[UP]}))
    assert said == f"{UP} and module.{UP} are both {UP}; keep one of them"


@pytest.mark.parametrize("name", [UP, "model.embed_tokens.weight", "model.norm.weight"])
def test_a_missing_tensor_is_named(name: str, tmp_path: Path) -> None:
    tensors = {key: value for key, value in weights().items() if key != name}
    assert refusal(lambda: planned(tmp_path, tensors)).startswith(f"{name} is missing")


def test_a_missing_layer_is_counted(tmp_path: Path) -> None:
    said = refusal(lambda: planned(tmp_path, num_hidden_layers=3))
    assert said.startswith("model.layers.2.input_layernorm.weight is missing from the checkpoint and 10 more")


def test_a_shape_that_is_not_the_configurations_is_refused(tmp_path: Path) -> None:
    said = refusal(lambda: planned(tmp_path, weights() | {UP: matrix(1, HIDDEN, FFN)}))
    assert said == f"{UP} has shape [256, 512]; config.json says [512, 256]"


# --- the head


def test_a_tied_head_is_not_written_and_its_copy_is_dropped(tmp_path: Path) -> None:
    copy = weights() | {"lm_head.weight": weights()["model.embed_tokens.weight"]}
    widened = (np.frombuffer(copy["lm_head.weight"][2], "<u2").astype("<u4") << 16).tobytes()
    in_f32 = weights() | {"lm_head.weight": ("F32", (ROWS, HIDDEN), widened)}
    plans = [planned(tmp_path / str(i), tensors) for i, tensors in enumerate((weights(), copy, in_f32))]
    said = "lm_head.weight is a copy of the embedding, as config.json says: dropped"
    assert [names(plan) == names(plans[0]) for plan in plans] == [True] * 3
    assert "output.weight" not in names(plans[0])
    assert [plan.notes for plan in plans] == [(), (said,), (said,)]


def test_a_trained_head_is_kept_whatever_the_configuration_says(tmp_path: Path) -> None:
    untied = planned(tmp_path / "untied", weights(head=True), tie_word_embeddings=False)
    claimed = planned(tmp_path / "claimed", weights(head=True))
    assert (names(untied)[-1], names(claimed)[-1]) == ("output.weight", "output.weight")
    warning = "warning: config.json calls the head tied, but lm_head.weight differs from the embedding: kept"
    assert (untied.notes, claimed.notes) == ((), (warning,))


def test_one_value_of_difference_is_a_trained_head(tmp_path: Path) -> None:
    data = bytearray(weights()["model.embed_tokens.weight"][2])
    data[-1] ^= 1
    assert (
        names(planned(tmp_path, weights() | {"lm_head.weight": ("BF16", (ROWS, HIDDEN), bytes(data))}))[-1]
        == "output.weight"
    )


@pytest.mark.parametrize("tied", [False, None])
def test_a_head_that_is_neither_there_nor_tied_is_missing(tied: bool | None, tmp_path: Path) -> None:
    assert refusal(lambda: planned(tmp_path, tie_word_embeddings=tied)).startswith("lm_head.weight is missing")


# --- the configuration


@pytest.mark.parametrize("head_dim", [128, None])
def test_head_dim_is_the_configurations_or_the_rows_never_hidden_over_heads(
    head_dim: int | None, tmp_path: Path
) -> None:
    found = {pair.key: pair.value for pair in planned(tmp_path, head_dim=head_dim).pairs}
    assert (found["qwen3.attention.key_length"], found["qwen3.attention.value_length"]) == (128, 128)


def test_a_head_dim_that_is_not_the_tensors_is_refused(tmp_path: Path) -> None:
    assert "q_proj.weight has shape [512, 256]" in refusal(lambda: planned(tmp_path, head_dim=64))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"}, "the architecture is Qwen2ForCausalLM"),
        ({"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe"}, "the architecture is Qwen3Moe"),
        ({"architectures": ["Qwen3ForSequenceClassification"]}, "Qwen3ForSequenceClassification"),
        ({"architectures": None, "model_type": None}, "not named in config.json"),
        ({"hidden_act": "gelu"}, "hidden_act 'gelu'"),
        ({"use_sliding_window": True, "sliding_window": 4096}, "sliding-window attention"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "sliding-window attention"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "quantized with gptq"),
        ({"quantization_config": {"quant_method": "awq"}}, "quantized with awq"),
        (
            {"quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True}},
            "quantized with bitsandbytes",
        ),
        ({"quantization_config": {"quant_method": "mxfp4"}}, "quantized with mxfp4"),
        ({"num_attention_heads": None}, "num_attention_heads should be a positive whole number"),
        ({"hidden_size": "256"}, "hidden_size should be a positive whole number, it is '256'"),
        ({"rms_norm_eps": None}, "rms_norm_eps"),
    ],
)
def test_a_configuration_that_is_not_a_dense_qwen3_is_refused(
    changes: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    assert reason in refusal(lambda: planned(tmp_path, **changes))


def test_the_vocabulary_has_the_embeddings_rows_and_a_difference_is_said(tmp_path: Path) -> None:
    plan = planned(tmp_path, vocab_size=300)
    assert plan.notes == (f"config.json says vocab_size 300, the embedding has {ROWS} rows: the rows count",)
    assert len({pair.key: pair.value for pair in plan.pairs}["tokenizer.ggml.tokens"]) == ROWS


def test_an_architecture_named_by_model_type_alone_is_enough(tmp_path: Path) -> None:
    assert planned(tmp_path, architectures=None).type is TensorType.BF16


# --- FP8


def fp8(
    scale: Entry | None, name: str = "weight_scale_inv", dtype: str = "F8_E4M3", code: int = 0x38
) -> dict[str, Entry]:
    tensors = weights() | {UP: (dtype, (FFN, HIDDEN), bytes([code]) * (FFN * HIDDEN))}
    return tensors | ({UP.removesuffix("weight") + name: scale} if scale else {})


def floats(*shape: int, value: float = 0.05) -> Entry:
    return "F32", shape, np.full(shape, value, "<f4").tobytes()


@pytest.mark.parametrize(
    ("scale", "name"),
    [
        (floats(FFN // 128, HIDDEN // 128), "weight_scale_inv"), (floats(), "weight_scale"),
        (floats(1), "weight_scale"), (floats(FFN, 1), "weight_scale"), (floats(FFN), "weight_scale"),
        (("BF16", (1, 1), bf16([0.05])), "weight_scale"),
    ],
    ids=["blocks", "one", "one in a list", "rows", "rows in a list", "bf16"],
)  # fmt: skip
def test_fp8_weights_are_written_times_their_scale(scale: Entry, name: str, tmp_path: Path) -> None:
    from venus_convert.write import tensor_data

    plan = planned(tmp_path, fp8(scale, name), quantization_config={"quant_method": "fp8"})
    tensor = next(tensor for tensor in plan.tensors if tensor.source.name == UP)
    data = np.concatenate([piece.copy() for piece in tensor_data(tensor)])
    assert data.tobytes() == bf16(np.full(FFN * HIDDEN, 0.05))


def test_each_block_of_fp8_has_its_own_scale(tmp_path: Path) -> None:
    from venus_convert.write import tensor_data

    grid = np.arange(1, 9, dtype="<f4").reshape(4, 2)
    plan = planned(tmp_path, fp8(("F32", (4, 2), grid.tobytes())))
    tensor = next(tensor for tensor in plan.tensors if tensor.source.name == UP)
    data = np.concatenate([piece.copy() for piece in tensor_data(tensor)])
    assert data.tobytes() == bf16(np.kron(grid, np.ones((128, 128))))


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        (fp8(None), "is FP8 and its scale is missing"),
        (fp8(floats(3, 5)), "does not tile"),
        (fp8(("U8", (1,), b"\x7f"), "weight_scale"), "is U8, not a scale"),
        (fp8(floats(value=float("nan")), "weight_scale"), "NaN or infinity"),
        (fp8(floats(), "weight_scale", code=0x7F), "NaN or infinity"),
        (weights() | {UP: ("I8", (FFN, HIDDEN), bytes(FFN * HIDDEN))}, "holds I8 values, not weights"),
        (weights() | {UP.removesuffix("weight") + "weight_scale": floats()}, "is BF16 and has a scale"),
    ],
    ids=["no scale", "another grid", "a scale of bytes", "a scale of nan", "a code of nan", "int8", "a scale too many"],
)
def test_low_precision_that_cannot_be_undone_is_refused_by_name(
    tensors: dict[str, Entry], reason: str, tmp_path: Path
) -> None:
    from venus_convert.convert import convert

    said = refusal(lambda: convert(planned(tmp_path, tensors), tmp_path / "out.gguf"))
    assert reason in said
    assert "mlp.up_proj" in said
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
