"""What a person types: files on stdout, errors in one line, exit codes, and JSON where a script wants it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click
import pytest
from venus_convert.cli import FETCH, convert_command, main
from venus_convert.read import read_gguf

from tests.convert.checkpoints import checkpoint, refusal

LOADED = (
    "import sys; from venus_convert.cli import convert_command; print(*sorted({m.split('.')[0] for m in sys.modules}))"
)


def code(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    return int(ended.value.code or 0)


def test_a_folder_becomes_a_file_and_its_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = checkpoint(tmp_path / "toy")
    main([str(source), "--outtype", "bf16", "--out", str(tmp_path / "toy.gguf")])
    said = capsys.readouterr()
    assert said.out.startswith(f"{tmp_path / 'toy.gguf'}  BF16  0.00 GB  ")
    assert said.err == ""
    main([str(source), "--outtype", "bf16", "--out", str(tmp_path / "toy.gguf")])
    assert capsys.readouterr().out.endswith("  up to date\n")


def test_what_was_made_can_be_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main([str(checkpoint(tmp_path / "toy")), "--out", str(tmp_path / "out"), "--json"])
    (made,) = json.loads(capsys.readouterr().out)
    assert (made["path"], made["type"], made["fresh"]) == (str(tmp_path / "out" / "toy-BF16.gguf"), "BF16", True)
    assert made["nbytes"] == Path(made["path"]).stat().st_size


def test_notes_go_to_stderr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = checkpoint(tmp_path / "toy", shards=2, without=("model.safetensors.index.json",))
    main([str(source), "--out", str(tmp_path / "out")])
    assert capsys.readouterr().err == "no model.safetensors.index.json: shards found by name\n"


def test_a_model_of_the_registry_brings_its_dialect_template_and_prompt(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "DR-Venus-4B-SFT", files={"tokenizer_config.json": {"eos_token": "<|im_end|>"}})
    main([str(source), "--out", str(tmp_path / "out.gguf")])
    found = read_gguf(tmp_path / "out.gguf").pairs
    assert (found["venus.dialect"], found["venus.source.repo"]) == ("sft", "inclusionAI/DR-Venus-4B-SFT")
    assert len(found["venus.system_prompt.sha256"]) == 64
    assert "<|im_start|>" in found["tokenizer.chat_template"]


def test_a_hub_name_is_fetched_by_whoever_knows_the_network(tmp_path: Path) -> None:
    asked: list[tuple[str, str]] = []

    def fetch(repo: str, revision: str) -> Path:
        asked.append((repo, revision))
        return checkpoint(tmp_path / "toy")

    @click.group()
    @click.pass_context
    def outer(ctx: click.Context) -> None:
        ctx.meta[FETCH] = fetch

    outer.add_command(convert_command, "convert")
    outer.main(["convert", "org/name", "--out", str(tmp_path / "out.gguf")], standalone_mode=False)
    assert (asked, (tmp_path / "out.gguf").exists()) == ([("org/name", "")], True)
    assert "has to be downloaded first: hf download org/name" in refusal(
        lambda: convert_command.main(["org/name", "--out", str(tmp_path)], standalone_mode=False)
    )


def test_a_flag_goes_before_the_registry(tmp_path: Path) -> None:
    source = checkpoint(tmp_path / "toy")
    asked = ("--model", "dr-venus-4b-rl", "--dialect", "official", "--name", "Mine", "--revision", "r1")
    main([str(source), "--out", str(tmp_path / "out.gguf"), *asked])
    found = read_gguf(tmp_path / "out.gguf").pairs
    assert [found[key] for key in ("venus.dialect", "general.name", "venus.source.revision")] == [
        "official",
        "Mine",
        "r1",
    ]


@pytest.mark.parametrize(
    ("flags", "number", "reason"),
    [
        (("--quant", "Q9"), 2, "unknown quantization 'Q9'; known: Q4_0"),
        (("--token-embedding-type", "Q9"), 2, "unknown tensor type 'Q9'; known: F32"),
        (("--model", "nobody"), 2, "unknown model 'nobody'; known: "),
        (("--context", "0"), 2, "--context"),
        (("--outtype", "int4"), 2, "--outtype"),
        (("--yarn-factor", "4"), 1, "YaRN is not needed"),
        (("--chat-template", "nowhere.jinja"), 2, "nowhere.jinja cannot be read"),
    ],
)
def test_a_wrong_wish_is_said_and_makes_nothing(
    flags: tuple[str, ...], number: int, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = checkpoint(tmp_path / "toy")
    assert code(str(source), "--out", str(tmp_path / "out"), *flags) == number
    said = capsys.readouterr()
    assert (said.out, (tmp_path / "out").exists()) == ("", False)
    assert reason in said.err


def test_a_good_file_verifies_with_0_and_a_wrong_one_with_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, other = checkpoint(tmp_path / "toy"), checkpoint(tmp_path / "other", rope_theta=10000)
    out = str(tmp_path / "toy.gguf")
    main([str(source), "--out", out])
    capsys.readouterr()
    assert code("verify", out, "--against", str(source)) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["ok"] * 9
    assert code("verify", out, "--against", str(other), "--json") == 1
    checks = json.loads(capsys.readouterr().out)
    assert [check["name"] for check in checks if not check["ok"]] == ["pairs as the checkpoint"]


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert code("verify", str(tmp_path / "nothing.gguf")) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_help_loads_neither_numpy_nor_llama_cpp() -> None:
    said = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True).stdout.split()
    assert {"numpy", "llama_cpp", "gguf", "rich"} & set(said) == set()
