"""What can be checked of a GGUF file without running it: header, pairs, and every tensor against its source.

In: a read header, and the checkpoint folder. Out: Checks. Dequantizing is the gguf package's, so that a mistake of the
quantizer is not repeated here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from venus_convert.convert import Options, Plan, prepare
from venus_convert.metadata import ARCH
from venus_convert.numbers import STORED, Floats, decode
from venus_convert.read import GgufFile, StoredTensor
from venus_convert.values import PlannedTensor, TensorRef, TensorType
from venus_convert.write import tensor_data, windows
from venus_edge.errors import VenusError

PIECE = 1 << 20  # values dequantized at a time; a multiple of every block


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the table."""

    name: str
    ok: bool
    detail: str


@dataclass(frozen=True, slots=True)
class Bound:
    """What rounding may cost: the root mean square of the error over that of the values, and its maximum over theirs.

    Twice what normally distributed weights lose, for real ones have outliers; a wrong scale or a shifted block loses
    ten times as much.
    """

    rms: float
    worst: float


BOUNDS = {
    "F32": Bound(0, 0), "F16": Bound(0.0005, 0.0005), "BF16": Bound(0.004, 0.004), "Q8_0": Bound(0.012, 0.008),
    "Q6_K": Bound(0.045, 0.045), "Q5_K": Bound(0.08, 0.08), "Q5_0": Bound(0.09, 0.08), "Q5_1": Bound(0.09, 0.08),
    "Q4_K": Bound(0.16, 0.15), "Q4_0": Bound(0.18, 0.15), "Q4_1": Bound(0.16, 0.15), "IQ4_NL": Bound(0.16, 0.16),
    "IQ4_XS": Bound(0.17, 0.17), "Q3_K": Bound(0.34, 0.34), "Q2_K": Bound(0.65, 0.65),
}  # fmt: skip


def check_header(file: GgufFile) -> Check:
    """The header was read, so the extents are right; this says of what."""
    kinds: dict[str, int] = {}
    for tensor in file.tensors.values():
        kinds[tensor.type_name] = kinds.get(tensor.type_name, 0) + 1
    listed = ", ".join(f"{count} {name}" for name, count in sorted(kinds.items()))
    values = sum(prod(tensor.shape) for tensor in file.tensors.values())
    bits = 8 * sum(tensor.nbytes for tensor in file.tensors.values()) / max(values, 1)
    return Check(
        "header", bool(file.tensors), f"v{file.version}, {file.size:,} bytes, {listed}, {bits:.2f} bits a weight"
    )


def check_metadata(file: GgufFile) -> Iterator[Check]:
    """The pairs that a Qwen3 needs to be loaded and to end its turns."""
    needed = [
        *(f"{ARCH}.{key}" for key in ("block_count", "context_length", "embedding_length", "rope.freq_base")),
        *(f"{ARCH}.attention.{key}" for key in ("head_count", "head_count_kv", "key_length", "value_length")),
        *(f"tokenizer.ggml.{key}" for key in ("model", "pre", "tokens", "token_type", "merges", "eos_token_id")),
    ]
    missing = [key for key in needed if key not in file.pairs]
    kind = file.pairs.get("general.architecture")
    wrong = [*(f"{key} is missing" for key in missing), *([f"architecture {kind!r}"] if kind != ARCH else [])]
    yield Check("metadata", not wrong, "; ".join(wrong) or _summary(file.pairs))
    if not missing:
        yield _check_rope(file.pairs)


def _summary(pairs: Mapping[str, Any]) -> str:
    template = "a chat template" if pairs.get("tokenizer.chat_template") else "no chat template"
    return f"{len(pairs)} pairs, {len(pairs['tokenizer.ggml.tokens']):,} tokens, {template}"


def _check_rope(pairs: Mapping[str, Any]) -> Check:
    """Scaling only where the window is beyond what was trained."""
    context, theta = pairs[f"{ARCH}.context_length"], pairs[f"{ARCH}.rope.freq_base"]
    factor = pairs.get(f"{ARCH}.rope.scaling.factor")
    if factor is None:
        return Check("rope", theta > 0, f"{context:,} tokens, theta {theta:,.0f}, no scaling")
    original = pairs.get(f"{ARCH}.rope.scaling.original_context_length", context)
    kind = pairs.get(f"{ARCH}.rope.scaling.type")
    return Check("rope", factor > 1, f"{context:,} tokens, theta {theta:,.0f}, {kind} {factor:g} over {original:,}")


# --- against the checkpoint


def check_checkpoint(file: GgufFile, folder: Path) -> Iterator[Check]:
    """Pairs and tensors against what the checkpoint gives today. A checkpoint that cannot be read is a failed check."""
    try:
        plan = prepare(folder, Options(context=_context(file)))
    except VenusError as error:
        yield Check("checkpoint", False, str(error))
        return
    yield _check_pairs(file, plan)
    wanted = {tensor.name: tensor.source.shape for tensor in plan.tensors}
    shapes = {name: tensor.shape for name, tensor in file.tensors.items()}
    different = sorted(set(wanted.items()) ^ set(shapes.items()))
    yield Check(
        "tensor list", not different, f"{len(wanted)} tensors" if not different else f"{different[0][0]} differs"
    )
    if not different:
        yield from _check_values(file, plan)


def _context(file: GgufFile) -> int | None:
    """The window that was asked for, where the file was stretched by YaRN; else the checkpoint's own."""
    return file.pairs.get(f"{ARCH}.context_length") if f"{ARCH}.rope.scaling.factor" in file.pairs else None


def _check_pairs(file: GgufFile, plan: Plan) -> Check:
    """Every pair but those that say how the file was made, as the checkpoint gives it."""
    made = ("general.", "venus.", "quantize.", "tokenizer.chat_template")
    keys = [pair for pair in plan.pairs if not pair.key.startswith(made)]
    wrong = [pair.key for pair in keys if not _equal(file.pairs.get(pair.key), pair.value)]
    return Check("pairs as the checkpoint", not wrong, ", ".join(wrong[:4]) or f"{len(keys)} equal")


def _equal(stored: Any, wanted: Any) -> bool:
    if isinstance(wanted, tuple):
        return bool(stored == list(wanted))
    if isinstance(wanted, float):
        return bool(stored is not None and np.float32(stored) == np.float32(wanted))
    return bool(stored == wanted)


def _check_values(file: GgufFile, plan: Plan) -> Iterator[Check]:
    """One row a tensor type: the tensor that lost the most, against the type's bound."""
    worst: dict[str, tuple[float, float, str]] = {}
    count: dict[str, int] = {}
    failed: dict[str, str] = {}
    for tensor in plan.tensors:
        kind = file.tensors[tensor.name].type_name
        rms, most = tensor_error(file, tensor)
        bound = BOUNDS.get(kind)
        count[kind] = count.get(kind, 0) + 1
        worst[kind] = max(worst.get(kind, (-1.0, 0.0, "")), (rms, most, tensor.name))
        if bound is None or not (rms <= bound.rms and most <= bound.worst):
            failed.setdefault(kind, tensor.name)
    for kind in sorted(count):
        rms, most, name = worst[kind]
        detail = f"{count[kind]} tensors; worst {name}: rms {rms:.4%}, max {most:.4%}"
        bad = failed.get(kind)
        yield Check(f"values {kind}", bad is None, detail if bad is None else f"{bad} is out of bounds; {detail}")


def tensor_error(file: GgufFile, tensor: PlannedTensor) -> tuple[float, float]:
    """Root mean square and maximum of the error, each over that of the source's values."""
    error = power = largest = biggest = 0.0
    source, stored = _source(tensor), _stored(file.path, file.tensors[tensor.name])
    for wanted, got in zip(source, stored, strict=True):
        difference = np.abs(got.astype(np.float64) - wanted)
        error += float(np.square(difference).sum())
        power += float(np.square(wanted, dtype=np.float64).sum())
        largest = max(largest, float(difference.max()))
        biggest = max(biggest, float(np.abs(wanted).max()))
    if not power:
        return (0.0, 0.0) if not error else (float("inf"), float("inf"))
    return (error / power) ** 0.5, largest / biggest


def _source(tensor: PlannedTensor) -> Iterator[Floats]:
    """The checkpoint's values, PIECE at a time."""
    exact = PlannedTensor(tensor.name, TensorType.F32, tensor.source, tensor.scale)
    return _regrouped(piece.view(np.float32) for piece in tensor_data(exact))


def _stored(path: Path, tensor: StoredTensor) -> Iterator[Floats]:
    """The file's values, PIECE at a time."""
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

    kind = GGMLQuantizationType(tensor.type)
    block, nbytes = GGML_QUANT_SIZES[kind]
    ref = TensorRef(tensor.name, kind.name, tensor.shape, path, tensor.offset, tensor.nbytes)
    for raw in windows(ref, PIECE // block * nbytes):
        if kind.name in STORED:
            yield decode(raw, kind.name)
        else:
            yield quants.dequantize(raw.reshape(1, -1), kind).reshape(-1)


def _regrouped(pieces: Iterator[Floats]) -> Iterator[Floats]:
    """The same values in pieces of PIECE."""
    held: list[Floats] = []
    size = 0
    for piece in pieces:
        held.append(piece.copy())
        size += piece.size
        while size >= PIECE:
            joined = np.concatenate(held)
            yield joined[:PIECE]
            held, size = [joined[PIECE:]], size - PIECE
    if size:
        yield np.concatenate(held)
