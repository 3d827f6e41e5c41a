"""A folder is opened by its headers alone, and every kind of damage is one line before any output exists."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from venus_convert.checkpoint import open_checkpoint
from venus_convert.cli import main

from tests.convert.checkpoints import checkpoint, matrix, refusal, safetensors, weights

Damage = Callable[[Path], object]
SECOND = "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 4967215360\n"
PAGE = "<!DOCTYPE html><title>Access to this model is restricted</title>"


def single(data: bytes | str) -> Damage:
    return lambda folder: checkpoint(folder, files={"model.safetensors": data})


def two_shards(change: Callable[[Path], object]) -> Damage:
    return lambda folder: change(checkpoint(folder, shards=2))


def cut(name: str, size: int) -> Callable[[Path], object]:
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:size])


def index(change: Callable[[dict[str, str]], object]) -> Callable[[Path], object]:
    def rewrite(folder: Path) -> None:
        table = json.loads((folder / INDEX).read_text())
        change(table["weight_map"])
        (folder / INDEX).write_text(json.dumps(table))

    return rewrite


def removing(*names: str) -> Callable[[Path], object]:
    def remove(folder: Path) -> None:
        for name in names:
            (folder / name).unlink()

    return remove


def linked_to_nothing(folder: Path) -> None:
    checkpoint(folder, without=("model.safetensors",))
    (folder / "model.safetensors").symlink_to("gone")


def adding(name: str, data: bytes) -> Callable[[Path], object]:
    def add(folder: Path) -> None:
        (folder / INDEX).unlink()
        (folder / name).write_bytes(data)

    return add


def header(text: str, data: bytes = b"") -> bytes:
    return struct.pack("<Q", len(text)) + text.encode() + data


def entry(name: str, begin: int, end: int, shape: str = "[2]") -> str:
    return f'"{name}":{{"dtype":"F32","shape":{shape},"data_offsets":[{begin},{end}]}}'


WHOLE = safetensors(weights())
DAMAGES: dict[str, tuple[Damage, str]] = {
    "no folder": (lambda folder: None, "is not there"),
    "a file": (lambda folder: folder.write_text("x"), "is a file"),
    "no config": (lambda folder: checkpoint(folder, without=("config.json",)), "config.json is not there"),
    "config is a page": (lambda folder: checkpoint(folder, files={"config.json": PAGE}), "a web page saved under"),
    "config is a list": (lambda folder: checkpoint(folder, files={"config.json": "[]"}), "should hold a JSON object"),
    "config is cut": (lambda folder: checkpoint(folder, files={"config.json": '{"a": '}), "config.json is not JSON"),
    "tokenizer is a pointer": (lambda folder: checkpoint(folder, files={"tokenizer.json": POINTER}), "git lfs pull"),
    "no weights": (lambda folder: checkpoint(folder, without=("model.safetensors",)), "no *.safetensors"),
    "pickled": (
        lambda folder: checkpoint(folder, without=("model.safetensors",), files={"pytorch_model.bin": b"PK\3\4"}),
        "pickled weights only",
    ),
    "a PEFT adapter": (
        lambda folder: checkpoint(
            folder, without=("config.json", "model.safetensors"), files={"adapter_config.json": "{}"}
        ),
        "is a PEFT adapter, not a model",
    ),
    "adapter weights alone": (
        lambda folder: checkpoint(folder, without=("model.safetensors",), files={"adapter_model.safetensors": WHOLE}),
        "is a PEFT adapter, not a model",
    ),
    "FSDP shards": (
        lambda folder: checkpoint(folder, without=("model.safetensors",), files={"__0_0.distcp": b"x"}),
        "consolidate it",
    ),
    "a GGUF folder": (
        lambda folder: checkpoint(folder, without=("config.json",), files={"m.gguf": b"GGUF"}), "need no conversion"
    ),
    "a missing shard": (two_shards(removing(SECOND)), f"{SECOND} is missing (2 shards"),
    "a missing shard, no index": (two_shards(removing(SECOND, INDEX)), f"{SECOND} is missing"),
    "a cut shard": (two_shards(cut(SECOND, -4096)), f"{SECOND} is cut"),
    "cut inside the header": (single(WHOLE[:100]), "is cut inside its header (100 bytes)"),
    "cut inside the length": (single(WHOLE[:5]), "is cut inside its header (5 bytes)"),
    "a pointer": (single(POINTER), "a Git LFS pointer, not the file itself: run `git lfs pull`"),
    "a page": (single(PAGE), "a web page saved under that name (a gated page"),
    "a page with spaces before": (single("\n  " + PAGE), "a web page saved under that name"),
    "the hub's refusal": (single('{"error":"Access to model x is restricted"}'), "the hub's error message"),
    "the hub's miss": (single("Entry not found"), "the hub's error message"),
    "a pickle by that name": (single(b"PK\3\4" + b"x" * 600), "a pickle (torch.save)"),
    "a GGUF by that name": (single(b"GGUF" + b"\0" * 600), "a GGUF file"),
    "empty": (single(b""), "is empty"),
    "zeros": (single(b"\0" * 4096), "begins with zeros"),
    "random bytes": (single(bytes(range(255, 0, -1)) * 4), "claim a header of"),
    "a header of 10^15 bytes": (single((10**15).to_bytes(8, "little") + WHOLE[8:]), "1,000,000,000,000,000 bytes"),
    "a header of text": (single(header("not json at all")), "its header is not JSON"),
    "a header that is a list": (single(header("[1, 2]")), "its header is not a table"),
    "an entry without a shape": (single(header('{"w":{"dtype":"F32"}}')), "does not describe w"),
    "an entry of nothing": (single(header('{"w":null}')), "does not describe w"),
    "no tensors": (single(header('{"__metadata__":{}}')), "holds no tensors"),
    "too few bytes for the shape": (single(header("{" + entry("w", 0, 4) + "}", bytes(4))), "4 bytes for F32 [2]"),
    "a negative size": (single(header("{" + entry("w", 0, 8, "[-2]") + "}", bytes(8))), "bytes for F32 [-2]"),
    "tensors over each other": (
        single(header("{" + entry("w", 0, 8) + "," + entry("x", 4, 12) + "}", bytes(12))), "x does not begin where"
    ),
    "a gap": (single(header("{" + entry("w", 0, 8) + "," + entry("x", 16, 24) + "}", bytes(24))), "x does not begin"),
    "bytes at the end": (single(WHOLE + bytes(64)), "64 bytes after its last tensor"),
    "a link to nothing": (linked_to_nothing, "is a link to a file that is gone"),
    "the index is a page": (two_shards(lambda folder: (folder / INDEX).write_text(PAGE)), "a web page saved"),
    "the index is a table of something else": (
        two_shards(lambda folder: (folder / INDEX).write_text('{"weight_map": []}')), "has no weight_map"
    ),
    "the index names a tensor that is nowhere": (
        two_shards(index(lambda where: where.update(extra=SECOND))), f"{SECOND} lacks extra, which the index puts there"
    ),
    "the index leaves the folder": (
        two_shards(index(lambda where: where.update(extra="../elsewhere.safetensors"))), "not a file of this folder"
    ),
    "a tensor in two shards": (
        two_shards(adding(SECOND, safetensors({"model.embed_tokens.weight": matrix(5, 288, 256)}))),
        "model.embed_tokens.weight is in both",
    ),
    "two sets of shards": (
        two_shards(adding("model-00001-of-00003.safetensors", WHOLE)),
        "shards of several sets and no index: model-*-of-00002, model-*-of-00003",
    ),
    "weights under two names": (
        lambda folder: checkpoint(
            folder, without=("model.safetensors",), files={"a.safetensors": WHOLE, "b.safetensors": WHOLE}
        ),
        "a.safetensors, b.safetensors: which is it?",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", DAMAGES)
def test_damage_is_one_line_within_a_second_and_leaves_no_output(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, reason = DAMAGES[kind]
    source, out = tmp_path / "model", tmp_path / "out"
    damage(source)
    start = time.monotonic()
    with pytest.raises(SystemExit) as ended:
        main([str(source), "--out", str(out)])
    said = capsys.readouterr()
    assert (ended.value.code, said.out, said.err.count("\n"), out.exists()) == (1, "", 1, False)
    assert reason in said.err
    assert time.monotonic() - start < 1


def test_a_folder_opens_to_every_tensor_and_no_notes(tmp_path: Path) -> None:
    opened = open_checkpoint(checkpoint(tmp_path))
    assert (list(opened.tensors), opened.notes) == (list(weights()), ())
    for name, (dtype, shape, data) in weights().items():
        ref = opened.tensors[name]
        assert (ref.dtype, ref.shape, ref.nbytes) == (dtype, shape, len(data))
        assert ref.path.read_bytes()[ref.offset : ref.offset + ref.nbytes] == data


def test_shards_without_an_index_are_found_by_name_and_said(tmp_path: Path) -> None:
    opened = open_checkpoint(checkpoint(tmp_path, shards=3, without=(INDEX,)))
    assert opened.notes == (f"no {INDEX}: shards found by name",)
    assert opened.tensors.keys() == weights().keys()


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda where: where.pop("model.norm.weight"), "is not in model's index; taken from "),
        (lambda where: where.update({"model.norm.weight": SECOND}), "is not where the index says; taken from "),
    ],
    ids=["forgotten", "elsewhere"],
)
def test_a_tensor_that_the_index_misplaces_is_taken_where_it_is_and_said(
    change: Callable[[dict[str, str]], object], note: str, tmp_path: Path
) -> None:
    folder = checkpoint(tmp_path / "model", shards=2)
    home = open_checkpoint(folder).tensors["model.norm.weight"].path.name
    index(change)(folder)
    opened = open_checkpoint(folder)
    moved = home != SECOND or "not in" in note
    assert opened.notes == ((f"model.norm.weight {note}{home}",) if moved else ())
    assert opened.tensors.keys() == weights().keys()


def test_a_single_file_wins_over_an_index_and_an_adapter_beside_is_said(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, shards=2, files={"model.safetensors": WHOLE, "adapter_config.json": "{}"})
    assert open_checkpoint(folder).notes == (
        f"{INDEX} is ignored: model.safetensors is there",
        "warning: a PEFT adapter lies beside the weights; it is not merged into them",
    )


def test_weights_under_another_name_are_taken_where_there_is_one(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, without=("model.safetensors",), files={"consolidated.safetensors": WHOLE})
    assert open_checkpoint(folder).notes == ("the weights are taken from consolidated.safetensors",)


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path: Path) -> None:
    from venus_convert.convert import convert, prepare

    plan = prepare(checkpoint(tmp_path / "model"))
    cut("model.safetensors", -4096)(tmp_path / "model")
    said = refusal(lambda: convert(plan, tmp_path / "out.gguf"))
    assert "it changed while it was read" in said
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
