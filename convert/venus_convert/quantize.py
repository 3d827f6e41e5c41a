"""A GGUF file -> a smaller one, by llama.cpp's own quantizer.

In: a bf16, f16 or f32 GGUF and a Recipe. Out: the quantized file, byte for byte what llama.cpp's tool writes. The
quantizer runs in a process of its own: it can be stopped at any moment, an abort inside llama.cpp becomes an error,
and it ends by itself when the process that started it is gone.
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from venus_convert.imatrix import Imatrix, read_imatrix
from venus_convert.read import read_gguf
from venus_convert.write import Progress, whole_or_nothing
from venus_edge.errors import ConversionError, UsageError

BUFFER = 256 << 20  # bytes of rows that the quantizer holds; its own default is 8 GiB, the result is the same
ERROR = 4  # ggml's log level


@dataclass(frozen=True, slots=True)
class Quant:
    """A quantization: llama.cpp's file type number and about how many bits it takes a weight of a 4B model."""

    name: str
    ftype: int
    bits: float


QUANTS = {
    quant.name: quant
    for quant in (
        Quant("Q4_0", 2, 4.8), Quant("Q4_1", 3, 5.2), Quant("Q5_0", 8, 5.7), Quant("Q5_1", 9, 6.1),
        Quant("Q8_0", 7, 8.6), Quant("Q2_K", 10, 3.4), Quant("Q3_K_M", 12, 4.2), Quant("Q4_K_S", 14, 4.8),
        Quant("Q4_K_M", 15, 5.0), Quant("Q5_K_S", 16, 5.7), Quant("Q5_K_M", 17, 5.8), Quant("Q6_K", 18, 6.7),
        Quant("IQ4_NL", 25, 4.8), Quant("IQ4_XS", 30, 4.6),
    )
}  # fmt: skip
TYPES = {
    "F32": 0, "F16": 1, "BF16": 30, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10, "Q3_K": 11,
    "Q4_K": 12, "Q5_K": 13, "Q6_K": 14, "IQ4_NL": 20, "IQ4_XS": 23,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to quantize: the kind, types for embedding and head if not its own, importance matrix, threads (0: all)."""

    quant: Quant
    embedding: str = ""
    head: str = ""
    imatrix: Path | None = None
    threads: int = 0


def quant(name: str) -> Quant:
    """The quantization of that name, in any case. The error for a miss lists the hits."""
    found = QUANTS.get(name.upper())
    if found is None:
        raise UsageError(f"unknown quantization {name!r}; known: {', '.join(QUANTS)}")
    return found


def fallback(kind: Quant, columns: Iterable[int]) -> str | None:
    """What llama.cpp will do with matrices whose rows do not fill the quantization's blocks, for a note."""
    block = 256 if "K" in kind.name or kind.name == "IQ4_XS" else 32
    widths = list(columns)
    odd = [width for width in widths if width % block]
    if not odd:
        return None
    said = f"{len(odd)} of {len(widths)} matrices have rows of {odd[0]}, not a multiple of {block}"
    return f"warning: {kind.name}: {said}: llama.cpp gives them a larger type"


def quantize(source: Path, out: Path, recipe: Recipe, progress: Progress = lambda done: None) -> None:
    """Write `out`. `progress` is told the bytes of each source tensor done.

    Raises ConversionError with llama.cpp's own reason. On an interrupt the quantizer is stopped and nothing is left.
    """
    sizes = {name: tensor.nbytes for name, tensor in read_gguf(source).tensors.items()}
    if recipe.imatrix is not None:
        read_imatrix(recipe.imatrix)  # before anything is written
    with whole_or_nothing(out) as part:
        _watch(source, part, recipe, lambda name: progress(sizes.get(name, 0)))


def _watch(source: Path, part: Path, recipe: Recipe, done: Callable[[str], None]) -> None:
    """Run the quantizer's process to its end, passing on the names of finished tensors."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_quantizer, args=(theirs, source, part, recipe), daemon=True)
    process.start()
    theirs.close()
    try:
        reason = _listen(ours, done)
        process.join()
    finally:
        process.kill()
        process.join()
        ours.close()
    if reason or process.exitcode:
        said = reason or f"it ended with {process.exitcode}"
        raise ConversionError(f"llama.cpp could not quantize {source.name} to {recipe.quant.name}: {said}")


def _listen(pipe: Connection, done: Callable[[str], None]) -> str:
    """Messages of the quantizer until it closes its end; what it said went wrong."""
    before, reason = "", ""
    while True:
        try:
            kind, text = pipe.recv()
        except EOFError:
            return reason
        if kind == "failed":
            reason = text
        else:
            done(before)
            before = text if kind == "tensor" else ""


# --- in the quantizer's process


def _quantizer(pipe: Connection, source: Path, part: Path, recipe: Recipe) -> None:
    """The whole life of the quantizer's process."""
    import llama_cpp

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides
    threading.Thread(target=_end_with_parent, args=(pipe, part), daemon=True).start()
    errors: list[str] = []
    log = llama_cpp.llama_log_callback(
        lambda level, text, _: _heard(pipe, errors, level, text.decode("utf-8", "replace"))
    )
    llama_cpp.llama_log_set(log, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    matrix = read_imatrix(recipe.imatrix) if recipe.imatrix is not None else None
    params, kept = _params(llama_cpp, recipe, matrix)
    failed = llama_cpp.llama_model_quantize(os.fsencode(source), os.fsencode(part), ctypes.byref(params))
    del kept
    pipe.send(("failed", " ".join(errors) or "no reason given") if failed else ("end", ""))


def _end_with_parent(pipe: Connection, part: Path) -> None:
    """The pipe closes when the process that started this one ends, however it ends."""
    try:
        pipe.recv()
    except (EOFError, OSError):
        part.unlink(missing_ok=True)
        os._exit(1)


def _heard(pipe: Connection, errors: list[str], level: int, text: str) -> None:
    """llama.cpp names each tensor as it begins it: `[  12/ 398] blk.0.attn_k.weight - [...`."""
    line = re.match(r"\[\s*\d+/\s*\d+\]\s+(\S+)", text)
    if line:
        pipe.send(("tensor", line[1]))
    elif level == ERROR and text.strip(" =\n"):
        errors.append(text.strip(" =\n"))


def _params(llama_cpp: Any, recipe: Recipe, matrix: Imatrix | None) -> tuple[Any, list[Any]]:
    """The quantizer's parameters, and what must stay alive while it runs."""
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype = recipe.quant.ftype
    params.nthread = recipe.threads or os.cpu_count() or 1
    params.max_buf_size = BUFFER
    if recipe.embedding:
        params.token_embedding_type = TYPES[recipe.embedding]
    if recipe.head:
        params.output_tensor_type = TYPES[recipe.head]
    if matrix is None or recipe.imatrix is None:
        return params, []
    weights = _matrix_array(llama_cpp, matrix)
    notes = _matrix_notes(llama_cpp, matrix, recipe.imatrix.name)
    params.imatrix, params.kv_overrides = weights, notes
    return params, [weights, notes, matrix]


def _matrix_array(llama_cpp: Any, matrix: Imatrix) -> Any:
    """The entries as llama.cpp takes them: an array that ends with an empty one."""
    pointer = ctypes.POINTER(ctypes.c_float)
    array = (llama_cpp.llama_model_imatrix_data * (len(matrix.entries) + 1))()
    for slot, (name, values) in zip(array, matrix.entries.items(), strict=False):
        slot.name, slot.data, slot.size = name.encode(), values.ctypes.data_as(pointer), values.size
    return array


def _matrix_notes(llama_cpp: Any, matrix: Imatrix, name: str) -> Any:
    """The pairs that llama.cpp's tool adds to say which matrix was used."""
    notes: list[tuple[str, str | int]] = [("file", name)]
    if matrix.dataset:
        notes.append(("dataset", matrix.dataset))
    notes.append(("entries_count", len(matrix.entries)))
    if matrix.chunks > 0:
        notes.append(("chunks_count", matrix.chunks))
    array = (llama_cpp.llama_model_kv_override * (len(notes) + 1))()
    for slot, (key, value) in zip(array, notes, strict=False):
        slot.key = f"quantize.imatrix.{key}".encode()
        if isinstance(value, int):
            slot.tag, slot.value.val_i64 = llama_cpp.LLAMA_KV_OVERRIDE_TYPE_INT, value
        else:
            slot.tag, slot.value.val_str = llama_cpp.LLAMA_KV_OVERRIDE_TYPE_STR, value.encode()[:127]
    return array
