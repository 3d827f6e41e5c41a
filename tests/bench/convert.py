"""Conversion, measured in pairs: ours, llama.cpp's own converter, and `cp` of the same bytes, in turn, in one run.

    python tests/bench/convert.py CHECKPOINT --peer PATH/convert_hf_to_gguf.py --peer-python PYTHON [--rounds 3]

In: a checkpoint folder (the shared make_qwen3_checkpoint.py writes one of real geometry), and where llama.cpp's
converter and a Python with torch and transformers are. Out: a table of seconds, bytes a second and peak memory, the
ratios that matter, and whether both files hold the same tensors and the same pairs. Disks are synced before each turn;
every turn writes a new file. The peer is optional; nothing of it is committed.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from venus_convert.convert import prepare
from venus_convert.read import GgufFile, read_gguf
from venus_convert.values import TensorRef
from venus_convert.write import same_values

ROOT = Path(__file__).resolve().parents[2]
# A process starts with its parent's peak on its account, so the parent is a bare interpreter.
LAUNCHER = """
import os, sys, time
start = time.monotonic()
child = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ)
_, status, usage = os.wait4(child, 0)
print()
print(time.monotonic() - start, usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status) != 0)
"""


@dataclass(frozen=True, slots=True)
class Turn:
    """One measured run: wall seconds and the process's peak memory in bytes."""

    seconds: float
    peak: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument("--peer", type=Path, help="llama.cpp's convert_hf_to_gguf.py")
    parser.add_argument("--peer-python", default=sys.executable)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", type=Path, help="folder for the files written; default a temporary one")
    parser.add_argument("--json", type=Path, help="write the figures there as well")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=asked.work) as folder:
        commands = _commands(asked, Path(folder))
        turns = _measure(commands, asked.rounds, Path(folder))
        size = (Path(folder) / "ours.gguf").stat().st_size
        figures = {name: _figures(found, size) for name, found in turns.items()}
        sys.stdout.write(_table(figures) + "\n")
        if asked.peer:
            sys.stdout.write("\n".join(_differences(Path(folder))) + "\n")
    if asked.json:
        asked.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")


def _commands(asked: argparse.Namespace, folder: Path) -> dict[str, Callable[[], Sequence[str]]]:
    shards = sorted({str(tensor.source.path) for tensor in prepare(asked.checkpoint).tensors})
    ours = [sys.executable, "-m", "venus_convert", str(asked.checkpoint), "--outtype", "bf16", "--force"]
    commands: dict[str, Callable[[], Sequence[str]]] = {
        "cp": lambda: ["cp", *shards, str(folder / "cp")],
        "ours": lambda: [*ours, "--out", str(folder / "ours.gguf")],
        "ours, unchecked": lambda: [*ours, "--no-check", "--out", str(folder / "unchecked.gguf")],
    }
    if asked.peer:
        peer = [asked.peer_python, str(asked.peer), str(asked.checkpoint), "--outtype", "bf16"]
        commands["peer"] = lambda: [*peer, "--outfile", str(folder / "peer.gguf")]
    return commands


def _measure(commands: dict[str, Callable[[], Sequence[str]]], rounds: int, folder: Path) -> dict[str, list[Turn]]:
    turns: dict[str, list[Turn]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            _clean(folder)
            turns[name].append(_turn(command(), folder))
            sys.stderr.write(f"{name}: {turns[name][-1].seconds:.1f} s\n")
            _drop_others(folder)
    return turns


def _clean(folder: Path) -> None:
    """An empty place for `cp`, and everything before on the disk rather than in its queue."""
    shutil.rmtree(folder / "cp", ignore_errors=True)
    (folder / "cp").mkdir()
    os.sync()


def _drop_others(folder: Path) -> None:
    shutil.rmtree(folder / "cp", ignore_errors=True)
    (folder / "unchecked.gguf").unlink(missing_ok=True)


def _turn(command: Sequence[str], folder: Path) -> Turn:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'convert'}{os.pathsep}{ROOT}"}
    launched = [sys.executable, "-I", "-S", "-c", LAUNCHER, *command]
    done = subprocess.run(launched, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command[0]} failed:\n{done.stderr[-2000:]}")
    seconds, peak = done.stdout.splitlines()[-1].split()
    return Turn(float(seconds), int(peak))


def _figures(turns: list[Turn], size: int) -> dict[str, float]:
    seconds = statistics.median(turn.seconds for turn in turns)
    return {"seconds": seconds, "gb_per_s": size / seconds / 1e9, "peak_mb": max(turn.peak for turn in turns) / 1e6}


def _table(figures: dict[str, dict[str, float]]) -> str:
    lines = [f"{'':16} {'seconds':>8} {'GB/s':>6} {'peak MB':>8}"]
    for name, row in figures.items():
        lines.append(f"{name:16} {row['seconds']:8.1f} {row['gb_per_s']:6.2f} {row['peak_mb']:8.0f}")
    ours = figures["ours"]
    lines.append(f"of cp's speed: {figures['cp']['seconds'] / ours['seconds']:.0%}")
    if "peer" in figures:
        peer = figures["peer"]
        lines.append(f"of the peer's seconds: {ours['seconds'] / peer['seconds']:.0%}")
        lines.append(f"of the peer's peak memory: {ours['peak_mb'] / peer['peak_mb']:.0%}")
    return "\n".join(lines)


def _differences(folder: Path) -> list[str]:
    """Every tensor and every pair of our file that is not the peer's."""
    ours, peer = read_gguf(folder / "ours.gguf"), read_gguf(folder / "peer.gguf")
    names = ours.tensors.keys() | peer.tensors.keys()
    unlike = sorted(name for name in names if not _same(ours, peer, name))
    lines = [f"{len(names) - len(unlike)} of {len(names)} tensors equal {', '.join(unlike[:5])}"]
    keys = sorted(ours.pairs.keys() | peer.pairs.keys())
    return lines + [
        f"{key}: ours {ours.pairs.get(key)!r:.60}, peer {peer.pairs.get(key)!r:.60}"
        for key in keys
        if ours.pairs.get(key) != peer.pairs.get(key)
    ]


def _same(ours: GgufFile, peer: GgufFile, name: str) -> bool:
    first, second = _ref(ours, name), _ref(peer, name)
    return first is not None and second is not None and first.dtype == second.dtype and same_values(first, second)


def _ref(file: GgufFile, name: str) -> TensorRef | None:
    tensor = file.tensors.get(name)
    if tensor is None:
        return None
    return TensorRef(name, tensor.type_name, tensor.shape, file.path, tensor.offset, tensor.nbytes)


if __name__ == "__main__":
    main()
