"""Every wrong file that someone may hand over as a model: one line says what it is and what to do."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from click.testing import CliRunner

from tests.bench import geometry
from tests.engine.vocabulary import Geometry, add_vocabulary, write_model
from venus_edge import runtime
from venus_edge.cli.app import cli
from venus_edge.fit import card, header
from venus_edge.settings import Directories, Settings

Make = Callable[[Path], Path]
TEMPLATE = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<think><tool_call>"


def holding(data: bytes, name: str = "model.gguf") -> Make:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(data)
        return folder / name

    return make


def pipe(folder: Path) -> Path:
    """What would be waited for."""
    os.mkfifo(folder / "model.gguf")
    return folder / "model.gguf"


def made(architecture: str, *, tensors: int = 1, order: Any = gguf.GGUFEndian.LITTLE, **pairs: object) -> Make:
    """A GGUF file of so many small tensors; `pairs` are metadata, dots written as __."""

    def make(folder: Path) -> Path:
        path = folder / "model.gguf"
        writer = gguf.GGUFWriter(path, architecture, endianess=order)
        for name, value in pairs.items():
            add = writer.add_uint32 if isinstance(value, int) else writer.add_string
            add(name.replace("__", "."), value)
        for n in range(tensors):
            writer.add_tensor(f"t{n}", np.zeros((32, 32), dtype=np.float32))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path

    return make


def version(number: int) -> Make:
    return holding(b"GGUF" + number.to_bytes(4, "little") + bytes(64))


def cut(share: float) -> Make:
    def make(folder: Path) -> Path:
        path = write_model(folder / "model.gguf", TEMPLATE)
        os.truncate(path, int(path.stat().st_size * share))
        return path

    return make


def split(missing: int, handed: int) -> Make:
    """A model in three parts of which one is missing; `handed` is the part that is named."""

    def make(folder: Path) -> Path:
        write_split(folder)
        (folder / f"m-{missing:05d}-of-00003.gguf").unlink(missing_ok=True)
        return folder / f"m-{handed:05d}-of-00003.gguf"

    return make


def write_split(folder: Path) -> Path:
    writer = gguf.GGUFWriter(folder / "m.gguf", "qwen3", split_max_tensors=9)
    writer.add_context_length(8_192)
    for add, value in (
        (writer.add_block_count, 2), (writer.add_embedding_length, 64), (writer.add_head_count, 4),
        (writer.add_head_count_kv, 2), (writer.add_key_length, 32), (writer.add_value_length, 32),
        (writer.add_feed_forward_length, 128),
    ):  # fmt: skip
        add(value)
    add_vocabulary(writer, 1_024, 0)
    for n in range(2):
        for name in ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "a", "b", "c", "d"):
            writer.add_tensor(f"blk.{n}.{name}.weight", np.zeros((64, 64), dtype=np.float32))
    writer.add_tensor("token_embd.weight", np.zeros((64, 64), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return folder / "m-00001-of-00003.gguf"


def checkpoint(folder: Path) -> Path:
    (folder / "model.safetensors").write_bytes(b"x")
    return folder


def filled(folder: Path) -> Path:
    (folder / "a-Q4_K_M.gguf").write_bytes(b"GGUF")
    return folder


def empty(folder: Path) -> Path:
    (folder / "empty").mkdir()
    return folder / "empty"


def link(folder: Path) -> Path:
    (folder / "model.gguf").symlink_to(folder / "gone.gguf")
    return folder / "model.gguf"


SAFETENSORS = (
    (64).to_bytes(8, "little") + b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'.ljust(64) + bytes(4)
)

REFUSED: list[tuple[str, Make, str]] = [
    ("a web page", holding(b"<!DOCTYPE html><title>Sign in</title>"), "is a web page, not a model"),
    ("an LFS pointer", holding(b"version https://git-lfs.github.com/spec/v1\noid"), "run git lfs pull"),
    ("a zip", holding(b"PK\x03\x04" + bytes(600)), "unpack or convert it first"),
    ("safetensors", holding(SAFETENSORS, "model.safetensors"), "safetensors checkpoint, not a GGUF: convert it first"),
    ("PyTorch's .bin", holding(b"PK\x03\x04" + bytes(600), "pytorch_model.bin"), "PyTorch checkpoint, not a GGUF"),
    ("an old PyTorch's .bin", holding(b"\x80\x02\x8a\x0a" + bytes(600), "pytorch_model.bin"), "PyTorch checkpoint"),
    ("an empty file", holding(b""), "is empty"),
    *([("a pipe", pipe, "is a device or a pipe: name the .gguf file itself")] if hasattr(os, "mkfifo") else []),
    ("GGML, before GGUF", holding(b"tjgg" + bytes(600)), "before GGUF"),
    ("GGUF version 1", version(1), "is GGUF version 1 (of 2023), which llama.cpp no longer reads"),
    ("GGUF version 9", version(9), "newer than what is known"),
    ("big-endian", made("qwen3", order=gguf.GGUFEndian.BIG), "is a GGUF of the other byte order (big-endian)"),
    ("cut in its header", cut(0.01), "is cut off or damaged in its header: fetch it again"),
    ("cut in its weights", cut(0.9), "is cut off: "),
    ("an embedding model", made("bert", bert__pooling_type=1), "is an embedding model, which writes no text"),
    ("Qwen3-Embedding", made("qwen3", qwen3__pooling_type=3), "is an embedding model, which writes no text"),
    ("Qwen3-Reranker", made("qwen3", qwen3__pooling_type=4), "is a ranking model, which writes no text"),
    ("mmproj", made("clip", general__type="mmproj"), "is the part of a model that sees images (mmproj)"),
    ("mmproj of before", made("clip"), "is the part of a model that sees images (mmproj)"),
    ("a LoRA adapter", made("qwen3", general__type="adapter", adapter__type="lora"), "is a LoRA adapter"),
    ("an importance matrix", made("imatrix", general__type="imatrix"), "is an importance matrix for quantizing"),
    ("a control vector", made("controlvector"), "is a control vector, which changes a model and is none"),
    ("a vocabulary only", made("qwen3", tensors=0), "is a vocabulary without weights"),
    ("part 2 of 3", split(missing=9, handed=2), "is part 2 of a split model: name its first part"),
    ("part 1 without part 3", split(missing=3, handed=1), "m-00003-of-00003.gguf is not beside it: fetch that too"),
    ("a folder with a model", filled, "is a folder: name the file in it, a-Q4_K_M.gguf"),
    ("a checkpoint's folder", checkpoint, "turn it into a model file with: venus-edge convert"),
    ("an empty folder", empty, "is a folder without a .gguf file"),
    ("a link to nowhere", link, "gone.gguf, which is not there: fetch the model again"),
    ("nothing", lambda folder: folder / "none.gguf", "is not there: give --model the path of a .gguf file"),
]
WARNED: list[tuple[str, Make, str]] = [
    ("another architecture", made("llama", tokenizer__ggml__model="gpt2"), "the architecture is 'llama', not qwen3"),
    ("no chat template", lambda folder: write_model(folder / "m.gguf", ""), "it carries no chat template"),
    ("another template", lambda folder: write_model(folder / "m.gguf", "[INST]"), "no <tool_call> and no <think>"),
]  # fmt: skip


def said(*arguments: str) -> tuple[int, list[str]]:
    result = CliRunner().invoke(cli, list(arguments))
    return result.exit_code, [line for line in result.stderr.splitlines() if line]


@pytest.mark.parametrize(("make", "words"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
@pytest.mark.parametrize("command", ["add", "run"])
def test_a_file_that_is_no_model_is_one_line(tmp_path: Path, command: str, make: Make, words: str) -> None:
    path = make(tmp_path)
    given = ["models", "add", str(path)] if command == "add" else ["run", "?", "--model", str(path), "--offline"]
    code, lines = said(*given, *(["--corpus", str(empty_corpus(tmp_path))] if command == "run" else []))
    assert (code, len(lines)) == (1, 1), lines
    assert words in lines[0]
    assert lines[0].startswith(f"Error: {path} ")


def empty_corpus(folder: Path) -> Path:
    corpus = folder / "corpus"
    corpus.mkdir()
    return corpus


@pytest.mark.parametrize(("make", "words"), [row[1:] for row in WARNED], ids=[row[0] for row in WARNED])
def test_a_file_that_opens_and_will_not_do_is_warned_of_when_it_is_added(
    tmp_path: Path, make: Make, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VENUS_CONFIG_DIR", str(tmp_path / "config"))
    result = CliRunner().invoke(cli, ["models", "add", str(make(tmp_path)), "--name", "mine"])
    assert result.exit_code == 0, result.output
    assert words in result.stdout


def test_a_run_says_what_is_wrong_with_its_file_before_it_begins(tmp_path: Path) -> None:
    notes: list[str] = []
    path = write_model(tmp_path / "m.gguf", "")
    settings = Settings(Directories(tmp_path, tmp_path, tmp_path), str(path), (empty_corpus(tmp_path),), n_ctx=1_024)
    with runtime.prepare(settings, notes.append):
        assert "warning: it carries no chat template; that of DR-Venus is used" in notes


def test_a_4b_of_a_wrong_rope_is_warned_of_and_a_small_one_of_its_own_is_not(tmp_path: Path) -> None:
    data = bytearray(geometry.write(tmp_path / "4b.gguf").read_bytes()[:20_000])
    assert card.warnings(header.read(tmp_path / "4b.gguf"))[0].startswith("warning: it carries no chat template")
    at = data.index(b"rope.freq_base") + len(b"rope.freq_base") + 4
    with (tmp_path / "4b.gguf").open("r+b") as file:
        file.seek(at)
        file.write(np.float32(10_000).tobytes())
    found = card.warnings(header.read(tmp_path / "4b.gguf"))
    assert found[1] == (
        "warning: RoPE theta 10,000 is neither 5,000,000 nor 1,000,000, so it writes nonsense after a page: convert it "
        "again (venus-edge convert)"
    )
    small = write_model(tmp_path / "small.gguf", TEMPLATE, size=Geometry())
    assert card.warnings(header.read(small)) == ()


def test_a_model_without_a_tokenizer_is_not_added(tmp_path: Path) -> None:
    code, lines = said("models", "add", str(write_model(tmp_path / "mute.gguf", TEMPLATE, count=0)))
    assert (code, len(lines)) == (1, 1)
    assert "carries no tokenizer: convert it again" in lines[0]


def test_a_split_model_is_planned_with_all_its_parts(tmp_path: Path) -> None:
    first = write_split(tmp_path)
    parts = sorted(tmp_path.glob("m-*.gguf"))
    found = header.read(first)
    assert len(parts) == 3
    assert found.size == sum(part.stat().st_size for part in parts)
    (weights,) = header.model(found).weights.values()
    assert weights.total == 23 * 64 * 64 * 4


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can become somebody else")
def test_a_file_that_may_not_be_read_is_one_line(tmp_path: Path) -> None:
    path = write_model(tmp_path / "mine.gguf", TEMPLATE)
    path.chmod(0o600)
    for folder in (tmp_path, *list(tmp_path.parents)[:2]):
        folder.chmod(0o755)
    os.seteuid(65_534)
    try:
        code, lines = said("models", "add", str(path))
    finally:
        os.seteuid(0)
    assert (code, lines) == (1, [f"Error: {path} cannot be read: Permission denied"])
