"""Quantizing is llama.cpp's; ours are the parameters, the importance matrix, the process and what is left behind."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt
import pytest
from venus_convert.checks import check_checkpoint
from venus_convert.convert import Options, convert, prepare
from venus_convert.imatrix import read_imatrix
from venus_convert.quantize import QUANTS, Recipe, quant, quantize
from venus_convert.read import read_gguf
from venus_convert.values import TensorType

from tests.convert.checkpoints import FFN, HIDDEN, checkpoint, refusal

Matrix = dict[str, npt.NDArray[np.float32]]


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("full")
    convert(prepare(checkpoint(folder / "model")), folder / "full.gguf")
    return folder / "full.gguf"


def kinds(path: Path) -> dict[str, str]:
    return {name: tensor.type_name for name, tensor in read_gguf(path).tensors.items()}


@pytest.mark.parametrize("name", ["Q4_K_M", "Q5_K_M", "Q4_0", "IQ4_XS"])
def test_every_value_stays_within_the_rounding_of_its_type(name: str, full: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    done: list[int] = []
    quantize(full, out, Recipe(quant(name)), done.append)
    checks = list(check_checkpoint(read_gguf(out), full.parent / "model"))
    assert [check for check in checks if not check.ok] == []
    assert sum(done) == sum(tensor.nbytes for tensor in read_gguf(full).tensors.values())
    assert [path.name for path in tmp_path.iterdir()] == ["out.gguf"]


def test_q8_0_by_llama_cpp_has_the_bytes_of_our_own_q8_0(full: Path, tmp_path: Path) -> None:
    theirs, ours = tmp_path / "theirs.gguf", tmp_path / "ours.gguf"
    quantize(full, theirs, Recipe(quant("Q8_0")))
    convert(prepare(full.parent / "model", Options(TensorType.Q8_0)), ours)
    first, second = ({t.name: t.data.tobytes() for t in gguf.GGUFReader(path).tensors} for path in (theirs, ours))
    assert first == second


def test_our_pairs_survive_the_quantizer(full: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    quantize(full, out, Recipe(quant("q4_k_m")))
    before, after = dict(read_gguf(full).pairs), dict(read_gguf(out).pairs)
    assert before.pop("general.file_type") == TensorType.BF16.ftype
    assert after.pop("general.file_type") == QUANTS["Q4_K_M"].ftype
    assert after == before


def test_the_embeddings_type_can_be_chosen(full: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.gguf"
    quantize(full, out, Recipe(quant("Q4_K_M"), embedding="Q8_0"))
    assert (kinds(out)["token_embd.weight"], kinds(out)["blk.0.ffn_up.weight"]) == ("Q8_0", "Q4_K")


def test_an_unknown_quantization_lists_the_known_ones() -> None:
    said = refusal(lambda: quant("Q4_K_XXL"))
    assert said == f"unknown quantization 'Q4_K_XXL'; known: {', '.join(QUANTS)}"


def test_what_llama_cpp_refuses_is_one_line_with_its_reason_and_leaves_nothing(full: Path, tmp_path: Path) -> None:
    small, again = tmp_path / "small.gguf", tmp_path / "again.gguf"
    quantize(full, small, Recipe(quant("Q4_0")))
    said = refusal(lambda: quantize(small, again, Recipe(quant("Q4_K_M"))))
    assert said.startswith("llama.cpp could not quantize small.gguf to Q4_K_M: ")
    assert "requantizing from type" in said
    assert [path.name for path in tmp_path.iterdir()] == ["small.gguf"]


# --- the importance matrix


def matrix() -> Matrix:
    rng = np.random.default_rng(7)
    names = ["attn_q", "attn_k", "attn_v", "ffn_up", "ffn_gate", "ffn_down"]
    sizes = {"ffn_down": FFN}
    return {
        f"blk.{layer}.{name}.weight": (rng.random(sizes.get(name, HIDDEN)) * 9 + 0.01).astype(np.float32)
        for layer in range(2)
        for name in names
    }


def legacy(entries: Matrix, calls: int = 3) -> bytes:
    """The .dat form: sums are the means times the calls; then the chunks and the data set's name."""
    out = [struct.pack("<i", len(entries))]
    for name, values in entries.items():
        out.append(struct.pack("<i", len(name)) + name.encode() + struct.pack("<ii", calls, values.size))
        out.append((values * np.float32(calls)).astype("<f4").tobytes())
    return b"".join(out) + struct.pack("<ii", 5, 8) + b"text.txt"


def modern(path: Path, entries: Matrix, count: float = 4.0) -> Path:
    writer = gguf.GGUFWriter(path, "imatrix")
    writer.add_type("imatrix")
    writer.add_array("imatrix.datasets", ["text.txt"])
    writer.add_uint32("imatrix.chunk_count", 5)
    writer.add_uint32("imatrix.chunk_size", 512)
    for name, values in entries.items():
        writer.add_tensor(f"{name}.in_sum2", values.reshape(1, -1) * np.float32(count))
        writer.add_tensor(f"{name}.counts", np.full((1, 1), count, np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def test_both_forms_of_a_matrix_are_read_to_the_same_values(tmp_path: Path) -> None:
    (tmp_path / "m.dat").write_bytes(legacy(matrix(), calls=4))
    old, new = read_imatrix(tmp_path / "m.dat"), read_imatrix(modern(tmp_path / "m.gguf", matrix()))
    assert (old.dataset, old.chunks, new.dataset, new.chunks) == ("text.txt", 5, "text.txt", 5)
    for found in (old, new):
        assert found.entries.keys() == matrix().keys()
        assert all(np.array_equal(found.entries[name], values) for name, values in matrix().items())


def test_a_matrix_changes_the_weights_and_is_recorded(full: Path, tmp_path: Path) -> None:
    plain, weighted = tmp_path / "plain.gguf", tmp_path / "weighted.gguf"
    (tmp_path / "m.dat").write_bytes(legacy(matrix()))
    quantize(full, plain, Recipe(quant("Q4_K_M")))
    quantize(full, weighted, Recipe(quant("Q4_K_M"), imatrix=tmp_path / "m.dat"))
    said = {key: value for key, value in read_gguf(weighted).pairs.items() if key.startswith("quantize.")}
    assert said == {
        "quantize.imatrix.file": "m.dat",
        "quantize.imatrix.dataset": "text.txt",
        "quantize.imatrix.entries_count": 12,
        "quantize.imatrix.chunks_count": 5,
    }
    first, second = ({t.name: t.data.tobytes() for t in gguf.GGUFReader(path).tensors} for path in (plain, weighted))
    assert {name.split(".")[-2] for name in first if first[name] != second[name]} >= {"attn_q", "ffn_up", "ffn_down"}
    assert first["token_embd.weight"] == second["token_embd.weight"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not an importance matrix"),
        (b"not a matrix at all", "is not an importance matrix"),
        (legacy(matrix())[:-600], "is not an importance matrix"),
        (legacy({}), "holds no importance matrix entries"),
        (legacy({"blk.0.ffn_up.weight": np.full(HIDDEN, np.nan, np.float32)}), "is not finite"),
    ],
    ids=["empty", "text", "cut", "nothing in it", "nan"],
)
def test_a_file_that_is_no_matrix_is_refused_before_anything_is_written(
    data: bytes, reason: str, full: Path, tmp_path: Path
) -> None:
    (tmp_path / "m.dat").write_bytes(data)
    recipe = Recipe(quant("Q4_K_M"), imatrix=tmp_path / "m.dat")
    assert reason in refusal(lambda: quantize(full, tmp_path / "out.gguf", recipe))
    assert [path.name for path in tmp_path.iterdir()] == ["m.dat"]
