"""What a file was made from, so that a second run can say "up to date".

In: input files, options and an output. Out: a small JSON file beside the output, and the answer whether it still
holds. Configuration files are hashed whole; weights by size, time and 64 samples across the file, for hashing 8 GB
takes longer than converting it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

SAMPLES, SAMPLE_BYTES = 64, 4096
WHOLE_BELOW = 64 << 20


def record_path(out: Path) -> Path:
    """Where the record of an output lies."""
    return out.with_name(f"{out.name}.json")


def fingerprint(inputs: Iterable[Path], said: Mapping[str, Any]) -> str:
    """A hash of the inputs and of everything that was asked; any change of either changes it."""
    digest = hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode())
    for path in sorted(inputs):
        size = path.stat().st_size
        when = path.stat().st_mtime_ns if size >= WHOLE_BELOW else 0
        digest.update(f"{path.name} {size} {when} {content_hash(path)}\n".encode())
    return digest.hexdigest()


def content_hash(path: Path) -> str:
    """sha256 of a file below 64 MiB, of evenly spread samples of a larger one."""
    size = path.stat().st_size
    digest = hashlib.sha256()
    with path.open("rb") as file:
        if size < WHOLE_BELOW:
            digest.update(file.read())
            return digest.hexdigest()
        for index in range(SAMPLES):
            file.seek((size - SAMPLE_BYTES) * index // (SAMPLES - 1))
            digest.update(file.read(SAMPLE_BYTES))
    return digest.hexdigest()


def write_record(out: Path, inputs: str) -> None:
    """Remember that `out`, as it is now, was made from inputs with that fingerprint."""
    table = {"inputs": inputs, "bytes": out.stat().st_size, "content": content_hash(out)}
    record_path(out).write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def up_to_date(out: Path, inputs: str) -> bool:
    """Whether `out` is there, was made from these inputs, and has not changed since."""
    try:
        table = json.loads(record_path(out).read_text(encoding="utf-8"))
        same = table["inputs"] == inputs and table["bytes"] == out.stat().st_size
        return bool(same and table["content"] == content_hash(out))
    except (OSError, ValueError, KeyError, TypeError):
        return False
