"""A run of the command: each file made once, nothing made twice, and nothing broken whenever it is stopped."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from venus_convert import convert, job
from venus_convert.job import Job, Made, run
from venus_convert.quantize import quant
from venus_convert.read import read_gguf
from venus_convert.verify import check_tokenizer

from tests.convert.checkpoints import FFN, HIDDEN, Entry, checkpoint, refusal, weights

ROOT = Path(__file__).resolve().parents[2]
BOTH = (quant("Q4_K_M"), quant("Q8_0"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return checkpoint(tmp_path / "toy", shards=2)


def ran(source: Path, out: Path, *quants: str, **asked: Any) -> list[Made]:
    return run(
        Job(source, out, tuple(map(quant, quants)), **asked), lambda line: None, lambda title, size: lambda done: None
    )


def listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fresh(made: list[Made]) -> list[tuple[str, str, bool]]:
    return [(one.path.name, one.type, one.fresh) for one in made]


def test_several_quants_are_made_from_one_passing_full_file(source: Path, tmp_path: Path) -> None:
    made = ran(source, tmp_path / "out", "Q4_K_M", "q8_0", "Q4_K_M")
    assert fresh(made) == [("toy-Q4_K_M.gguf", "Q4_K_M", True), ("toy-Q8_0.gguf", "Q8_0", True)]
    assert listed(tmp_path / "out") == [
        "toy-Q4_K_M.gguf", "toy-Q4_K_M.gguf.json", "toy-Q8_0.gguf", "toy-Q8_0.gguf.json"
    ]  # fmt: skip


def test_the_full_file_is_kept_where_that_is_asked_and_used_again(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert fresh(ran(source, out, "Q8_0", keep=True)) == [
        ("toy-BF16.gguf", "BF16", True), ("toy-Q8_0.gguf", "Q8_0", True)
    ]  # fmt: skip
    before = (out / "toy-BF16.gguf").stat().st_mtime_ns
    assert fresh(ran(source, out, "Q4_0")) == [("toy-Q4_0.gguf", "Q4_0", True)]
    assert (out / "toy-BF16.gguf").stat().st_mtime_ns == before


def test_a_gguf_is_a_source_too_and_stays(source: Path, tmp_path: Path) -> None:
    ran(source, tmp_path / "full")
    full = tmp_path / "full" / "toy-BF16.gguf"
    assert fresh(ran(full, tmp_path / "out", "Q8_0")) == [("toy-Q8_0.gguf", "Q8_0", True)]
    assert full.exists()
    assert "is a GGUF file already" in refusal(lambda: ran(full, tmp_path / "out"))


def test_a_second_run_with_the_same_inputs_is_up_to_date(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran(source, out, "Q8_0", keep=True)
    both = [("toy-BF16.gguf", "BF16", False), ("toy-Q8_0.gguf", "Q8_0", False)]
    assert fresh(ran(source, out, "Q8_0", keep=True, threads=1)) == both
    assert fresh(ran(source, out, force=True)) == [("toy-BF16.gguf", "BF16", True)]


@pytest.mark.parametrize(
    "change", ["a weight", "the template", "the context", "the output", "the embedding", "no record"]
)
def test_any_change_of_input_output_or_wish_makes_it_again(change: str, source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran(source, out)
    asked: dict[str, Any] = {}
    if change == "a weight":
        name, (dtype, shape, data) = "model.norm.weight", weights()["model.norm.weight"]
        checkpoint(source, shards=2, tensors=weights() | {name: (dtype, shape, b"\x80\x40" * (len(data) // 2))})
    elif change == "the template":
        (source / "chat_template.jinja").write_text("new", encoding="utf-8")
    elif change == "the context":
        asked["options"] = convert.Options(context=524288)
    elif change == "the output":
        (out / "toy-BF16.gguf").write_bytes((out / "toy-BF16.gguf").read_bytes()[:-32] + bytes(32))
    else:
        (out / "toy-BF16.gguf.json").unlink()
    assert fresh(ran(source, out, **asked)) == [("toy-BF16.gguf", "BF16", True)]


def test_another_recipe_or_matrix_makes_a_quant_again(source: Path, tmp_path: Path) -> None:
    matrices = [tmp_path / "a.dat", tmp_path / "b.dat"]
    for number, path in enumerate(matrices):
        path.write_bytes(bytes([number]))
    wishes: list[dict[str, Any]] = [
        {},
        {"embedding": "F16"},
        {"head": "Q8_0"},
        *({"imatrix": path} for path in matrices),
    ]
    plan = job.opened(Job(source, tmp_path))
    prints = {job.inputs(Job(source, tmp_path, BOTH, **wish), plan, quant) for wish in wishes for quant in BOTH}
    assert len(prints) == 2 * len(wishes)


def test_one_name_for_two_files_is_refused(source: Path, tmp_path: Path) -> None:
    said = refusal(lambda: ran(source, tmp_path / "one.gguf", "Q8_0", "Q4_0"))
    assert said.endswith("one.gguf is one file and 2 are asked for; name a folder")


def test_a_disk_without_room_is_said_before_the_first_byte(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    said = refusal(lambda: ran(source, tmp_path / "out"))
    assert "has 0.00 GB free and " in said
    assert listed(tmp_path / "out") == []


def test_a_folder_that_cannot_be_made_is_one_line(source: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert "cannot be used" in refusal(lambda: ran(source, tmp_path / "file" / "out", "Q8_0"))


def test_names_with_spaces_and_other_scripts_work(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "模型 и модель")
    made = ran(folder, tmp_path / "out put é", "Q8_0")
    assert fresh(made) == [("模型 и модель-Q8_0.gguf", "Q8_0", True)]
    assert check_tokenizer(read_gguf(made[0].path)).ok


def test_rows_that_do_not_fill_a_block_are_said_and_still_quantized(tmp_path: Path) -> None:
    odd = {name: narrowed(entry) if ".mlp." in name else entry for name, entry in weights().items()}
    said: list[str] = []
    source = checkpoint(tmp_path / "odd", tensors=odd, intermediate_size=288)
    run(Job(source, tmp_path / "out", (quant("Q4_K_M"),)), said.append, lambda title, size: lambda done: None)
    note = "2 of 15 matrices have rows of 288, not a multiple of 256: llama.cpp gives them a larger type"
    assert said == [f"warning: Q4_K_M: {note}"]
    assert check_tokenizer(read_gguf(tmp_path / "out" / "odd-Q4_K_M.gguf")).ok


def narrowed(entry: Entry) -> Entry:
    """A feed-forward matrix of width 288 from one of 512."""
    dtype, shape, data = entry
    values = np.frombuffer(data, "<u2").reshape(shape)
    values = values[:288] if shape == (FFN, HIDDEN) else values[:, :288]
    return dtype, values.shape, values.tobytes()


# --- stopped


def started(source: Path, out: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "venus_convert", str(source), "-q", "Q4_K_M", "-q", "IQ4_NL", "--out", str(out)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'convert'}{os.pathsep}{ROOT}"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def until_something_is_there(out: Path, process: subprocess.Popen[str]) -> None:
    while process.poll() is None and not (out.is_dir() and list(out.iterdir())):
        time.sleep(0.005)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_leaves_nothing_unfinished(
    number: signal.Signals, code: int, source: Path, tmp_path: Path
) -> None:
    process = started(source, tmp_path / "out")
    until_something_is_there(tmp_path / "out", process)
    process.send_signal(number)
    _, said = process.communicate(timeout=20)
    assert process.returncode == code, said
    assert [name for name in listed(tmp_path / "out") if name.startswith(".")] == []


def test_ten_kills_at_random_moments_leave_no_broken_file(source: Path, tmp_path: Path) -> None:
    out, moments = tmp_path / "out", random.Random(1)
    for _ in range(10):
        process = started(source, out)
        until_something_is_there(out, process)
        time.sleep(moments.random() * 0.8)
        process.kill()
        process.communicate()
        for path in out.glob("*.gguf"):
            read_gguf(path)
            path.unlink()
    assert fresh(ran(source, out)) == [("toy-BF16.gguf", "BF16", True)]
    assert [name for name in listed(out) if name.startswith(".")] == []


def test_the_record_is_json_beside_the_file(source: Path, tmp_path: Path) -> None:
    ran(source, tmp_path / "out")
    record = json.loads((tmp_path / "out" / "toy-BF16.gguf.json").read_text())
    assert record.keys() == {"inputs", "bytes", "content"}
