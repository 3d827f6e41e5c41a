"""A model file's header: what it says of itself, and every damage in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import geometry
from tests.engine.vocabulary import Geometry, write_model
from venus_edge import registry
from venus_edge.errors import ModelError
from venus_edge.fit import header
from venus_edge.fit.sizes import QWEN3_4B, Shape, weights_of

TINY = registry.PACKAGE / registry.load()["venus-tiny"].file


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model") / "small.gguf", "{{ messages }}", size=Geometry())


def test_a_small_models_geometry_weights_and_template_are_read(small: Path) -> None:
    found = header.read(small)
    model = header.model(found)
    assert model.shape == Shape(2, 64, 4, 2, 32, 32, 128, 1_050, 8_192)
    assert (found.architecture, found.quant, found.text("tokenizer.chat_template")) == (
        "qwen3",
        "F32",
        "{{ messages }}",
    )
    assert model.weights["F32"].total == sum(tensor.size for tensor in found.tensors)
    assert found.metadata["tokenizer.ggml.tokens"] == 1_050


def test_the_real_geometry_weighs_what_the_planner_says_of_it(tmp_path: Path) -> None:
    found = header.model(header.read(geometry.write(tmp_path / "4b.gguf")))
    weights, predicted = found.weights["Q4_K_M"], weights_of(QWEN3_4B, "Q4_K_M")
    assert found.shape == QWEN3_4B
    assert weights.total == pytest.approx(predicted.total, rel=1e-4)
    assert weights.tied
    assert weights.repacked["Q4_K"] == predicted.repacked["Q4_K"]


def test_the_shipped_model_can_be_planned_for() -> None:
    assert header.model(header.read(TINY)).shape.layers > 0


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05, 0.5, 0.999])
def test_a_file_that_is_cut_off_is_said_to_be(small: Path, tmp_path: Path, share: float) -> None:
    whole = small.read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: max(8, int(len(whole) * share))])
    with pytest.raises(ModelError, match="cut off"):
        header.read(tmp_path / "cut.gguf")


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_header_is_one_line_or_harmless(small: Path, tmp_path: Path, seed: int) -> None:
    data = bytearray(small.read_bytes())
    for step in range(4):
        data[8 + (seed * 7_919 + step * 104_729) % 3_000] ^= 1 << (seed + step) % 8
    (tmp_path / "damaged.gguf").write_bytes(data)
    said = ""
    try:
        header.model(header.read(tmp_path / "damaged.gguf"))
    except ModelError as error:
        said = str(error)
    assert "\n" not in said


def test_a_file_of_another_kind_is_named() -> None:
    with pytest.raises(ModelError, match="is not a GGUF model"):
        header.read(Path(__file__))


def test_a_header_that_claims_more_than_the_file_holds_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bomb.gguf").write_bytes(b"GGUF" + (3).to_bytes(4, "little") + b"\xff" * 7 + b"\x7f" + b"\xff" * 8)
    with pytest.raises(ModelError, match="cut off or damaged"):
        header.read(tmp_path / "bomb.gguf")
