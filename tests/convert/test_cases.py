"""The conversion cases beside the project: each input gives its outcome. Skipped where the cases are absent."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from venus_convert.convert import Options, convert, prepare
from venus_convert.read import GgufFile, read_gguf
from venus_convert.values import TensorType
from venus_convert.verify import check_forward

from venus_edge.errors import ConversionError, VenusError

Outcome = GgufFile | str  # the file, or what was said


@pytest.fixture
def case(shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function: the name of a case -> its checkpoint folders by name."""
    spec = importlib.util.spec_from_file_location("tiny_qwen3", shared / "cases" / "tiny_qwen3.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "tiny_qwen3", module)
    lines = (shared / "cases" / "cases.jsonl").read_text(encoding="utf-8").splitlines()
    inputs = {entry["id"]: entry["input"] for entry in map(json.loads, lines)}

    def folders(name: str) -> dict[str, Path]:
        names: dict[str, Any] = {"tmp": tmp_path}
        exec(compile(inputs[name], name, "exec"), names)
        data = names["data"]
        found: Iterable[Path] = (
            data.values() if isinstance(data, Mapping) else [data] if isinstance(data, Path) else data
        )
        return {folder.name: folder for folder in found}

    return folders


def outcome(folder: Path, options: Options | None = None) -> Outcome:
    """What becomes of a checkpoint. A refusal is one line and leaves no file."""
    out = folder.with_suffix(".gguf")
    out.unlink(missing_ok=True)
    try:
        convert(prepare(folder, options), out)
    except VenusError as error:
        assert not out.exists()
        assert list(folder.parent.glob(".*")) == []
        return str(error)
    return read_gguf(out)


def outcomes(folders: Mapping[str, Path], options: Options | None = None) -> dict[str, Outcome]:
    return {name: outcome(folder, options) for name, folder in folders.items()}


def pairs(found: Outcome, *keys: str) -> tuple[Any, ...]:
    assert isinstance(found, GgufFile), found
    return tuple(found.pairs.get(key) for key in keys)


def tensors(found: Outcome) -> dict[str, bytes]:
    assert isinstance(found, GgufFile), found
    return {tensor.name: tensor.data.tobytes() for tensor in gguf.GGUFReader(found.path).tensors}


def test_c01_the_tied_head(case: Any) -> None:
    found = outcomes(case("C01"))
    assert "output.weight" not in tensors(found["tied"])
    assert tensors(found["tied_copy"]) == tensors(found["tied"])
    assert tensors(found["tied_differs"]).keys() - tensors(found["tied"]) == {"output.weight"}
    assert str(found["untied_missing"]).startswith("lm_head.weight is missing")
    assert isinstance(found["tied"], GgufFile)
    assert check_forward(found["tied"]).ok


def test_c02_head_dim(case: Any) -> None:
    for found in outcomes(case("C02")).values():
        assert pairs(found, "qwen3.attention.key_length", "qwen3.attention.value_length") == (128, 128)
        assert isinstance(found, GgufFile)
        norms = [found.tensors[f"blk.0.attn_{name}_norm.weight"] for name in "qk"]
        assert [(norm.shape, norm.type_name) for norm in norms] == [((128,), "F32")] * 2


ROPE = ("qwen3.context_length", "qwen3.rope.freq_base", "qwen3.rope.scaling.type", "qwen3.rope.scaling.factor",
        "qwen3.rope.scaling.original_context_length")  # fmt: skip


def test_c03_a_native_window_is_not_bent(case: Any) -> None:
    (folder,) = case("C03").values()
    native = (262144, 5e6, None, None, None)
    assert pairs(outcome(folder), *ROPE) == native
    assert pairs(outcome(folder, Options(context=131072)), *ROPE) == native
    assert "YaRN is not needed" in str(outcome(folder, Options(yarn_factor=4.0)))
    assert "YaRN is not needed" in str(outcome(folder, Options(context=131072, yarn_factor=4.0)))
    assert pairs(outcome(folder, Options(context=524288)), *ROPE) == (524288, 5e6, "yarn", 2.0, 262144)


def test_c04_every_spelling_of_rope(case: Any) -> None:
    found = outcomes(case("C04"))
    for name in ("type", "rope_type", "v5", "null_twin"):
        assert pairs(found[name], *ROPE[1:]) == (1e6, "yarn", 4.0, 32768)
    assert pairs(found["v5_default"], *ROPE[1:]) == (5e6, None, None, None)
    assert pairs(found["no_orig"], *ROPE[1:]) == (5e6, "yarn", 4.0, 262144)
    assert "theta is never guessed" in str(found["no_theta"])
    assert "'spiral'" in str(found["unknown"])


def test_c06_the_template(case: Any) -> None:
    found = {name: pairs(value, "tokenizer.chat_template")[0] for name, value in outcomes(case("C06")).items()}
    for name in ("both", "null_plus_file", "file_no_tokcfg", "bom_crlf"):
        assert "{# from jinja file #}" in found[name]
        assert "\ufeff" not in found[name]
    assert found["named_list"] == sys.modules["tiny_qwen3"].TEMPLATE
    assert found["none"] is None


def test_c07_the_end_of_a_turn(case: Any) -> None:
    keys = ("tokenizer.ggml.eos_token_id", "venus.stop_token_ids", "tokenizer.ggml.add_bos_token")
    assert [pairs(found, *keys) for found in outcomes(case("C07")).values()] == [(264, [264, 262], False)] * 4


def test_c09_numbers_that_would_not_survive(case: Any) -> None:
    folders = case("C09")
    found = outcomes(folders)
    up = np.frombuffer(tensors(found["fp8"])["blk.0.ffn_up.weight"], "<u2").astype("<u4") << 16
    assert np.allclose(up.view("<f4"), 0.05, rtol=0.004)
    assert isinstance(found["too_big_for_f16"], GgufFile)
    assert "99840, which f16" in str(outcome(folders["too_big_for_f16"], Options(TensorType.F16)))
    assert isinstance(outcome(folders["too_big_for_f16"], Options(TensorType.Q8_0)), GgufFile)
    assert str(found["nan"]).startswith("model.norm.weight holds NaN")
    assert "quantized with gptq" in str(found["gptq"])


def test_c11_broken_downloads(case: Any) -> None:
    found = outcomes(case("C11"))
    reasons = {
        "missing_shard": "is missing", "cut_data": "is cut", "cut_header": "is cut inside its header",
        "lfs_pointer": "git lfs pull", "html": "a web page saved", "empty": "is empty", "huge_header": "claim a header",
    }  # fmt: skip
    assert {name: reason in str(found[name]) for name, reason in reasons.items()} == dict.fromkeys(reasons, True)
    assert len(tensors(found["stale_index"])) == len(tensors(found["no_index"])) == 24


def test_a_refusal_of_the_cases_is_a_conversion_error(case: Any) -> None:
    with pytest.raises(ConversionError):
        prepare(case("C11")["empty"])
