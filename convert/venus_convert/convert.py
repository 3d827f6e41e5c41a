"""The order of the steps: open, plan, write. What `job` runs and a test can call without a terminal.

In: a checkpoint folder and Options. Out: a Plan, and from it one GGUF file in bf16, f16, f32 or q8_0. Nothing is
written before everything that can be refused from headers and configuration has been.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

from venus_convert.checkpoint import open_checkpoint
from venus_convert.metadata import Provenance, pairs, revision
from venus_convert.rope import rope
from venus_convert.tensors import plan
from venus_convert.values import Checkpoint, KeyValue, PlannedTensor, TensorType
from venus_convert.vocab import vocabulary
from venus_convert.write import Progress, header, same_values, total_bytes, whole_or_nothing, write_gguf
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
    def type(self) -> TensorType:
        """The type of the matrices."""
        return self.tensors[0].type

    @property
    def nbytes(self) -> int:
        """Bytes of tensor data to be written."""
        return total_bytes(self.tensors)

    @property
    def parameters(self) -> int:
        """How many weights there are."""
        return sum(prod(tensor.source.shape) for tensor in self.tensors)


def prepare(source: Path, options: Options | None = None) -> Plan:
    """Read everything but the weights. Raises ConversionError for what cannot be converted right."""
    options = options or Options()
    checkpoint = open_checkpoint(source)
    shape, tensors, notes = plan(checkpoint, options.outtype, same_values)
    positions = rope(checkpoint.config, options.context, options.yarn_factor)
    words = vocabulary(checkpoint, shape.vocab, options.template)
    parameters = sum(prod(tensor.source.shape) for tensor in tensors)
    known = options.known if options.known.revision else replace(options.known, revision=revision(source))
    found = pairs(checkpoint, shape, positions, words, tensors[0].type, parameters, known)
    said = (*checkpoint.notes, *notes, *positions.notes, *words.notes)
    return Plan(checkpoint, tuple(found), tuple(tensors), said)


def convert(
    plan: Plan, out: Path, progress: Progress = lambda done: None, check: Callable[[Path], None] = lambda path: None
) -> None:
    """Write a plan's file; `check` sees it before it gets its name.

    Raises ConversionError for NaN, overflow and whatever `check` refuses, StorageError for the disk.
    """
    head = header(plan.pairs, plan.tensors)
    need_space(out.parent, len(head) + plan.nbytes)
    with whole_or_nothing(out) as part:
        write_gguf(part, head, plan.tensors, progress)
        check(part)


def need_space(folder: Path, size: float) -> None:
    """Make the folder and check that it can take `size` bytes. Raises StorageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
    except OSError as error:
        raise StorageError(f"{folder} cannot be used: {error.strerror or error}") from error
    if free < size:
        said = f"{folder} has {free / 1e9:.2f} GB free and {size / 1e9:.2f} GB are needed"
        raise StorageError(f"{said}; make room, or name another folder with --out")
