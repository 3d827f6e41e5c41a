"""The table of checks: a good file passes all of it, and each kind of spoiling fails the row that is about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from venus_convert.checks import Check
from venus_convert.convert import Options, Plan, convert, prepare
from venus_convert.quantize import Recipe, quant, quantize
from venus_convert.read import read_gguf
from venus_convert.values import KeyType, KeyValue
from venus_convert.verify import verify

from tests.convert.checkpoints import HIDDEN, Entry, bf16, checkpoint, weights


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkpoint(tmp_path_factory.mktemp("verify") / "model")


@pytest.fixture(scope="module")
def full(folder: Path) -> Path:
    convert(prepare(folder), folder.parent / "full.gguf")
    return folder.parent / "full.gguf"


def failed(checks: list[Check]) -> list[str]:
    return [check.name for check in checks if not check.ok]


def test_a_quantized_file_passes_every_check(folder: Path, full: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    quantize(full, out, Recipe(quant("Q6_K")))
    checks = list(verify(out, folder, full))
    assert failed(checks) == []
    assert [check.name for check in checks] == [
        "header", "metadata", "rope", "pairs as the checkpoint", "tensor list", "values F32", "values Q6_K",
        "tokenizer", "forward pass", "KL to the reference", "top-1 as the reference",
    ]  # fmt: skip


def test_a_file_compared_with_itself_diverges_by_nothing(full: Path) -> None:
    divergence, agreement = list(verify(full, reference=full))[-2:]
    assert divergence.detail.startswith("mean 0.00000 nats")
    assert agreement.detail.startswith("100.0% of ")


def rewritten(change: Callable[[Plan], Plan]) -> Callable[[Path, Path], Path]:
    def make(folder: Path, out: Path) -> Path:
        convert(change(prepare(folder)), out)
        return out

    return make


def pair(key: str, kind: KeyType, value: object) -> Callable[[Path, Path], Path]:
    def change(plan: Plan) -> Plan:
        return replace(plan, pairs=(*(one for one in plan.pairs if one.key != key), KeyValue(key, kind, value)))

    return rewritten(change)


def weight(name: str, entry: Entry) -> Callable[[Path, Path], Path]:
    """A file made from a checkpoint in which one tensor is another one."""

    def make(folder: Path, out: Path) -> Path:
        convert(prepare(checkpoint(out.parent / "other", tensors=weights() | {name: entry})), out)
        return out

    return make


def swapped(plan: Plan) -> Plan:
    """Two tokens in each other's place."""

    def change(one: KeyValue) -> KeyValue:
        if one.key != "tokenizer.ggml.tokens":
            return one
        tokens = list(one.value)
        tokens[64], tokens[65] = tokens[65], tokens[64]
        return replace(one, value=tuple(tokens))

    return replace(plan, pairs=tuple(map(change, plan.pairs)))


def roped(folder: Path, out: Path) -> Path:
    convert(prepare(folder, Options(context=524288)), out)
    return out


UP = "model.layers.1.mlp.up_proj.weight"
OTHER = weights()["model.layers.0.mlp.up_proj.weight"]


@pytest.mark.parametrize(
    ("make", "rows"),
    [
        pytest.param(pair("qwen3.rope.freq_base", KeyType.FLOAT32, 1e4), ["pairs as the checkpoint"], id="theta"),
        pytest.param(pair("tokenizer.ggml.eos_token_id", KeyType.UINT32, 5), ["pairs as the checkpoint"], id="eos"),
        pytest.param(
            pair("tokenizer.ggml.pre", KeyType.STRING, "gpt-2"), ["pairs as the checkpoint", "tokenizer"], id="pre"
        ),
        pytest.param(
            pair("tokenizer.ggml.add_bos_token", KeyType.BOOL, True), ["pairs as the checkpoint", "tokenizer"], id="bos"
        ),
        pytest.param(rewritten(swapped), ["pairs as the checkpoint"], id="tokens swapped"),
        pytest.param(weight(UP, OTHER), ["values BF16"], id="a matrix"),
        pytest.param(
            weight("model.norm.weight", ("BF16", (HIDDEN,), bf16(np.full(HIDDEN, 1.1)))), ["values F32"], id="a norm"
        ),
        pytest.param(roped, [], id="YaRN beyond the window"),
    ],
)
def test_what_is_wrong_fails_its_own_row(
    make: Callable[[Path, Path], Path], rows: list[str], folder: Path, tmp_path: Path
) -> None:
    assert failed(list(verify(make(folder, tmp_path / "out.gguf"), folder))) == rows


def test_a_file_of_another_architecture_is_not_checked_further(folder: Path, tmp_path: Path) -> None:
    out = pair("general.architecture", KeyType.STRING, "llama")(folder, tmp_path / "out.gguf")
    assert [(check.name, check.ok) for check in verify(out, folder)][:2] == [("header", True), ("metadata", False)]
    assert "tokenizer" not in [check.name for check in verify(out, folder)]


def test_a_checkpoint_of_another_shape_fails_by_its_first_difference(full: Path, tmp_path: Path) -> None:
    other = checkpoint(tmp_path / "other", tensors=weights(head=True), tie_word_embeddings=False)
    checks = {check.name: check for check in verify(full, other)}
    assert not checks["tensor list"].ok
    assert checks["tensor list"].detail == "output.weight differs"


def test_a_checkpoint_that_cannot_be_read_is_a_failed_row(full: Path, tmp_path: Path) -> None:
    assert failed(list(verify(full, tmp_path / "nowhere"))) == ["checkpoint"]


def test_a_model_far_from_its_reference_fails_by_its_divergence(full: Path, tmp_path: Path) -> None:
    make = weight(UP, OTHER)
    out = make(full.parent / "model", tmp_path / "out.gguf")
    assert failed(list(verify(out, reference=full, max_kl=1e-6))) == ["KL to the reference"]


def test_a_file_whose_logits_are_not_finite_fails_the_forward_pass(full: Path, tmp_path: Path) -> None:
    spoiled = tmp_path / "out.gguf"
    data = bytearray(full.read_bytes())
    tensor = read_gguf(full).tensors["output_norm.weight"]
    data[tensor.offset : tensor.offset + 4] = np.float32(np.nan).tobytes()
    spoiled.write_bytes(data)
    assert failed(list(verify(spoiled))) == ["forward pass"]
