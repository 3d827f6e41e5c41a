"""Where model files are, and which of a repository's files is meant."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from venus_edge import hub, registry
from venus_edge.errors import ModelError

SPEC = registry.load()["dr-venus-4b-rl"]
FILES = ["README.md", "DR-Venus-4B-RL-Q8_0.gguf", "DR-Venus-4B-RL-Q4_K_M.gguf", "sub/other-q4-k-m-long.gguf"]


def put(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"GGUF")
    return path


def test_a_model_that_is_nowhere_names_the_command_the_place_and_the_demo(tmp_path: Path) -> None:
    with pytest.raises(ModelError) as raised:
        hub.locate(SPEC, tmp_path)
    message = str(raised.value)
    assert "venus-edge models pull dr-venus-4b-rl" in message
    assert str(tmp_path) in message
    assert "venus-edge run --demo" in message


def test_a_file_that_a_person_put_there_is_found_by_its_name(tmp_path: Path) -> None:
    put(tmp_path / "DR-Venus-4B-SFT.Q4_K_M.gguf")
    mine = put(tmp_path / "DR_Venus_4B_RL.Q4_K_M.gguf")
    assert hub.locate(SPEC, tmp_path) == mine


def test_a_file_in_the_hubs_cache_is_found_without_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    folder = tmp_path / "hub" / "models--inclusionAI--DR-Venus-4B-RL-GGUF" / "snapshots" / "abc"
    put(folder / "x-Q8_0.gguf")
    wanted = put(folder / "x-Q4_K_M.gguf")
    assert hub.locate(SPEC, tmp_path / "models") == wanted


def test_a_shipped_file_is_the_packages_own(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="is not there; give --model the path"):
        hub.locate(replace(SPEC, file="demo/none.gguf"), tmp_path)


@pytest.mark.parametrize(("quant", "name"), [("Q8_0", FILES[1]), ("q4_k_m", FILES[2]), ("Q4-K-M", FILES[2])])
def test_a_repositorys_file_is_chosen_by_its_quantization(quant: str, name: str) -> None:
    assert hub.choose(FILES, quant, "a/b") == name


def test_a_quantization_that_is_not_there_lists_what_is() -> None:
    with pytest.raises(ModelError, match=r"a/b has no Q6_K file; it has DR-Venus-4B-RL-Q4_K_M.gguf, .*--quant"):
        hub.choose(FILES, "Q6_K", "a/b")


def test_a_model_without_a_repository_cannot_be_pulled() -> None:
    with pytest.raises(ModelError, match="has no repository to fetch from"):
        hub.pull(registry.load()["venus-tiny"])
