"""The order of the steps: open, plan, write. What `cli` calls and a test can call without a terminal.

In: a checkpoint folder and Options. Out: one GGUF file in bf16, f16, f32 or q8_0, and a Converted that says what it is.
Nothing is written before everything that can be refused has been.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from pathlib import Path

from venus_convert.checkpoint import open_checkpoint
from venus_convert.metadata import Provenance, pairs, revision
from venus_convert.rope import rope
from venus_convert.tensors import plan
from venus_convert.values import Checkpoint, KeyValue, PlannedTensor, TensorType
from venus_convert.vocab import vocabulary
from venus_convert.write import Progress, header, same_values, total_bytes, write_gguf
from venus_edge.errors import StorageError


@dataclass(frozen=True, slots=True)
class Options:
    """What a person may ask of a conversion. `outtype` None keeps the checkpoint's own; `template` is a fallback."""

    outtype: TensorType | None = None
    context: int | None = None
    yarn_factor: float | None = None
    template: str | None = None
    known: Provenance = field(default_factory=Provenance)


@dataclass(frozen=True, slots=True)
class Plan:
    """A conversion that nothing more can be said against: what will be written, and what was odd."""

    checkpoint: Checkpoint
    pairs: tuple[KeyValue, ...]
    tensors: tuple[PlannedTensor, ...]
    notes: tuple[str, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of tensor data."""
        return total_bytes(self.tensors)


def prepare(source: Path, options: Options = Options()) -> Plan:
    """Read everything but the weights. Raises ConversionError for what cannot be converted right."""
    checkpoint = open_checkpoint(source)
    shape, tensors, notes = plan(checkpoint, options.outtype, same_values)
    positions = rope(checkpoint.config, options.context, options.yarn_factor)
    words = vocabulary(checkpoint, shape.vocab, options.template)
    parameters = sum(prod(tensor.source.shape) for tensor in tensors)
    known = options.known
    if not known.revision:
        known = Provenance(known.name, known.dialect, known.repo, revision(source), known.system_prompt)
    found = pairs(checkpoint, shape, positions, words, tensors[0].type, parameters, known)
    return Plan(checkpoint, tuple(found), tuple(tensors), (*checkpoint.notes, *notes, *positions.notes, *words.notes))


def convert(plan: Plan, out: Path, progress: Progress = lambda done: None) -> int:
    """Write a plan's file and return its size. Raises ConversionError for NaN and overflow, StorageError else."""
    size = len(header(plan.pairs, plan.tensors)) + plan.nbytes
    need_space(out.parent, size)
    write_gguf(out, plan.pairs, plan.tensors, progress)
    return out.stat().st_size


def need_space(folder: Path, size: int) -> None:
    """Make the folder and check that it can take `size` bytes. Raises StorageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise StorageError(f"{folder} cannot be used: {error.strerror or error}") from error
    if free < size:
        raise StorageError(
            f"{folder} has {free / 1e9:.1f} GB free and {size / 1e9:.1f} GB are needed; name another --out"
        )


Say = Callable[[str], None]
