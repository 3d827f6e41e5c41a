"""An importance matrix file -> weights for the quantizer, as llama.cpp's own tool reads them.

In: a GGUF imatrix, or the older .dat form. Out: an Imatrix. Raises ConversionError for a file that is neither.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from venus_convert.read import GgufFile, StoredTensor, read_gguf
from venus_edge.errors import ConversionError, ModelError


@dataclass(frozen=True, slots=True)
class Imatrix:
    """The mean squared activation of each input column, by tensor name; what it was computed on; how many chunks."""

    entries: Mapping[str, npt.NDArray[np.float32]]
    dataset: str
    chunks: int


def read_imatrix(path: Path) -> Imatrix:
    """Read either form. Raises ConversionError, one line."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConversionError(f"{path} cannot be read: {error.strerror}") from error
    try:
        found = _gguf(read_gguf(path), data) if data[:4] == b"GGUF" else _legacy(data)
    except (struct.error, KeyError, ValueError, ModelError) as error:
        raise ConversionError(f"{path} is not an importance matrix, or it is cut") from error
    if not found.entries:
        raise ConversionError(f"{path} holds no importance matrix entries")
    bad = next((name for name, values in found.entries.items() if not np.isfinite(values).all()), None)
    if bad is not None:
        raise ConversionError(f"{path}: the entry for {bad} is not finite")
    return found


def _gguf(file: GgufFile, data: bytes) -> Imatrix:
    entries = {}
    for name in file.tensors:
        stem = name.removesuffix(".in_sum2")
        if stem == name:
            continue
        counts = np.rint(_floats(file.tensors[f"{stem}.counts"], data)).reshape(-1, 1)
        sums = _floats(file.tensors[name], data).reshape(counts.size, -1)
        means = np.where(counts > 0, sums / np.maximum(counts, 1), np.float32(1))
        entries[stem] = means.astype(np.float32).reshape(-1)
    datasets = file.pairs["imatrix.datasets"]
    return Imatrix(entries, datasets[0] if datasets else "", int(file.pairs["imatrix.chunk_count"]))


def _floats(tensor: StoredTensor, data: bytes) -> npt.NDArray[np.float32]:
    return np.frombuffer(data, "<f4", tensor.nbytes // 4, tensor.offset)


def _legacy(data: bytes) -> Imatrix:
    (count,), at = struct.unpack_from("<i", data), 4
    entries: dict[str, npt.NDArray[np.float32]] = {}
    for _ in range(count):
        (length,) = struct.unpack_from("<i", data, at)
        name = data[at + 4 : at + 4 + length].decode("utf-8")
        calls, size = struct.unpack_from("<ii", data, at + 4 + length)
        at += 12 + length
        values = np.frombuffer(data, "<f4", size, at)
        entries[name] = (values / np.float32(calls)).astype(np.float32) if calls > 0 else values
        at += 4 * size
    dataset, chunks = "", 0
    if at < len(data):
        chunks, length = struct.unpack_from("<ii", data, at)
        dataset = data[at + 8 : at + 8 + length].decode("utf-8", "replace")
    return Imatrix(entries, dataset, chunks)
