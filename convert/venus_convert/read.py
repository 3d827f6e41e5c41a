"""A GGUF file -> its pairs and where its tensors lie. Only the header is read.

In: a path. Out: a GgufFile, every tensor of which lies inside the file. Raises ModelError for a file that is cut,
damaged or no GGUF. It knows nothing about what the pairs mean.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from venus_edge.errors import ModelError

NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a file: ggml's type number, shape with rows first, and where its bytes lie in the file."""

    name: str
    type: int
    shape: tuple[int, ...]
    offset: int
    nbytes: int

    @property
    def type_name(self) -> str:
        """ggml's name of the type, as F32 or Q4_K."""
        from gguf import GGMLQuantizationType

        return str(GGMLQuantizationType(self.type).name)


@dataclass(frozen=True, slots=True)
class GgufFile:
    """The header of a GGUF file. `pairs` holds plain values; arrays are lists."""

    path: Path
    version: int
    size: int
    pairs: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]


class _Cursor:
    """A position in the header's bytes."""

    def __init__(self, data: mmap.mmap) -> None:
        self.data = data
        self.at = 0

    def take(self, form: str) -> Any:
        value = struct.unpack_from(f"<{form}", self.data, self.at)[0]
        self.at += struct.calcsize(f"<{form}")
        return value

    def text(self) -> str:
        length = self.take("Q")
        if length > len(self.data) - self.at:
            raise struct.error
        self.at += length
        return self.data[self.at - length : self.at].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.text()
        if kind != ARRAY:
            return self.take(NUMBERS[kind])
        inner, count = self.take("I"), self.take("Q")
        if inner not in NUMBERS:
            return [self.value(inner) for _ in range(count)]
        form = f"<{count}{NUMBERS[inner]}"
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return list(values)


def read_gguf(path: Path) -> GgufFile:
    """Read a file's header. Raises ModelError, one line."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise ModelError(f"{path} is not a GGUF file")
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror}") from error
    try:
        with data:
            return _read(path, size, _Cursor(data))
    except (struct.error, KeyError, ValueError, OverflowError, MemoryError) as error:
        raise ModelError(f"{path} is cut or damaged inside its header; convert or download it again") from error


def _read(path: Path, size: int, head: _Cursor) -> GgufFile:
    head.at = 4
    version, count, keys = head.take("I"), head.take("Q"), head.take("Q")
    if version not in (2, 3):
        raise ModelError(f"{path} has GGUF version {version}; 2 and 3 are known")
    pairs = {}
    for _ in range(keys):
        key = head.text()
        pairs[key] = head.value(head.take("I"))
    listed = []
    for _ in range(count):
        name, dims = head.text(), head.take("I")
        shape = tuple(head.take("Q") for _ in range(dims))[::-1]
        listed.append((name, shape, head.take("I"), head.take("Q")))
    alignment = int(pairs.get("general.alignment", 32))
    start = head.at + -head.at % alignment
    tensors = {
        name: StoredTensor(name, kind, shape, start + at, _nbytes(kind, shape)) for name, shape, kind, at in listed
    }
    _check_extents(path, size, list(tensors.values()), alignment)
    return GgufFile(path, version, size, pairs, tensors)


def _nbytes(kind: int, shape: tuple[int, ...]) -> int:
    from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

    block, nbytes = GGML_QUANT_SIZES[GGMLQuantizationType(kind)]
    return int(prod(shape) // block * nbytes)


def _check_extents(path: Path, size: int, tensors: list[StoredTensor], alignment: int) -> None:
    end = 0
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        if tensor.offset < end or tensor.offset % alignment:
            raise ModelError(f"{path} is damaged: {tensor.name} lies over the tensor before it or off its boundary")
        end = tensor.offset + tensor.nbytes
        if end > size:
            raise ModelError(f"{path} is cut: {size:,} bytes, {tensor.name} alone ends at {end:,}; make it again")
