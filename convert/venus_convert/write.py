"""Key-value pairs and planned tensors -> a GGUF file, streamed.

In: what the file should hold, and where each tensor's bytes lie. Out: the file. Tensors are read in windows of 2 MiB
through one buffer, so that memory does not grow with the model; reading rather than mapping keeps the pages of an 8 GB
checkpoint out of the process. `whole_or_nothing` keeps a half-written file from ever having the name of a whole one.
"""

from __future__ import annotations

import math
import os
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO

import numpy as np

from venus_convert.numbers import Floats, Raw, decode, encode, recode
from venus_convert.values import KeyType, KeyValue, PlannedTensor, TensorRef
from venus_edge.errors import ConversionError, StorageError

ALIGNMENT = 32
WINDOW = 1 << 21  # bytes; a multiple of every element and of 32 values, and small enough to stay in the cache
SCALARS = {KeyType.UINT32: "<I", KeyType.INT32: "<i", KeyType.FLOAT32: "<f", KeyType.BOOL: "<?"}
Progress = Callable[[int], None]


def write_gguf(
    path: Path, head: bytes, tensors: Sequence[PlannedTensor], progress: Progress = lambda done: None
) -> None:
    """Write a header and its tensors. `progress` is told the bytes of each piece. Raises ConversionError, OSError."""
    with path.open("wb", buffering=0) as out:
        _write(out, head)
        for tensor in tensors:
            for piece in tensor_data(tensor):
                _write(out, piece.data)
                progress(piece.nbytes)
            _write(out, bytes(-tensor.nbytes % ALIGNMENT))


@contextmanager
def whole_or_nothing(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that becomes `path` when the block ends well, and is removed when it does not."""
    part = part_path(path)
    try:
        yield part
        os.replace(part, path)
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)


def part_path(path: Path) -> Path:
    """The hidden temporary name of a file that this process is making."""
    return path.with_name(f".{path.name}.{os.getpid()}.part")


def sweep(folder: Path) -> list[Path]:
    """Remove what killed conversions left in a folder; the paths removed. Files of running ones stay."""
    stale = [path for path in folder.glob(".*.part") if _owner_is_gone(path)]
    for path in stale:
        path.unlink(missing_ok=True)
    return stale


def _owner_is_gone(path: Path) -> bool:
    found = re.search(r"\.gguf\..*?(\d+)\.part$", path.name)
    if not found:
        return False
    try:
        os.kill(int(found[1]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def header(pairs: Sequence[KeyValue], tensors: Sequence[PlannedTensor]) -> bytes:
    """Everything before the tensor data, padded: magic, version 3, pairs, and the list of tensors."""
    out = [struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(pairs))]
    out += [_string(pair.key) + _value(pair) for pair in pairs]
    offset = 0
    for tensor in tensors:
        dims = tensor.source.shape[::-1]
        out.append(_string(tensor.name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, tensor.type.ggml, offset))
        offset += tensor.nbytes + -tensor.nbytes % ALIGNMENT
    data = b"".join(out)
    return data + bytes(-len(data) % ALIGNMENT)


def tensor_data(tensor: PlannedTensor) -> Iterator[Raw]:
    """The bytes of one tensor as the file holds them. A piece is valid until the next one is asked for."""
    name = tensor.source.name
    if tensor.scale is not None:
        for values in _scaled(tensor.source, tensor.scale):
            yield encode(values, tensor.type, name)
        return
    for raw in windows(tensor.source):
        yield recode(raw, tensor.source.dtype, tensor.type, name)


def windows(ref: TensorRef, size: int = WINDOW) -> Iterator[Raw]:
    """A tensor's raw bytes through one buffer of `size` bytes, which the next window overwrites."""
    buffer = np.empty(min(size, ref.nbytes), np.uint8)
    with ref.path.open("rb", buffering=0) as file:
        file.seek(ref.offset)
        left = ref.nbytes
        while left:
            window = buffer[: min(left, size)]
            _fill(file, window, ref)
            yield window
            left -= window.nbytes


def same_values(a: TensorRef, b: TensorRef) -> bool:
    """Whether two tensors hold the same values, whatever types they are stored in."""
    if a.shape != b.shape:
        return False
    if a.dtype == b.dtype:
        return all(np.array_equal(x, y) for x, y in zip(windows(a), windows(b), strict=True))
    count = WINDOW // 8
    pairs = zip_longest(windows(a, count * _width(a)), windows(b, count * _width(b)))
    return all(np.array_equal(decode(x, a.dtype), decode(y, b.dtype)) for x, y in pairs)


def _width(ref: TensorRef) -> int:
    return {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}.get(ref.dtype, 1)


def _fill(file: BinaryIO, window: Raw, ref: TensorRef) -> None:
    view = window.data
    while view:
        got = file.readinto(view)  # type: ignore[attr-defined]  # an unbuffered binary file has it; BinaryIO does not say so
        if not got:
            raise ConversionError(f"{ref.path} ended inside {ref.name}: it changed while it was read")
        view = view[got:]


def _write(out: BinaryIO, data: bytes | memoryview) -> None:
    view = memoryview(data)
    while view:
        view = view[out.write(view) :]


def _scaled(ref: TensorRef, scale: TensorRef) -> Iterator[Floats]:
    """An FP8 matrix times its scale, in groups of rows. The scale is one number, one a row, or one a block."""
    rows, columns = ref.shape
    factors = np.concatenate([decode(raw, scale.dtype) for raw in windows(scale)])
    height, width, grid = _blocks(ref, scale)
    factors = factors.reshape(grid)
    step = math.gcd(height, 128) if grid[0] > 1 else min(rows, 128)
    for index, raw in enumerate(windows(ref, step * columns)):
        line = np.repeat(factors[index * step // height], width)[:columns]
        yield (decode(raw, ref.dtype).reshape(-1, columns) * line).reshape(-1)


def _blocks(ref: TensorRef, scale: TensorRef) -> tuple[int, int, tuple[int, int]]:
    """Height and width of a scale's block and the grid of blocks."""
    rows, columns = ref.shape
    grid = {0: (1, 1), 1: (scale.shape[0] if scale.shape else 1, 1)}.get(len(scale.shape), scale.shape)
    if len(grid) == 2 and 1 <= grid[0] <= rows and 1 <= grid[1] <= columns:
        height, width = (1 if n == size else _block(size, n) for n, size in zip(grid, (rows, columns), strict=True))
        if height and width:
            return height, width, (grid[0], grid[1])
    raise ConversionError(f"{scale.name} has shape {list(scale.shape)}, which does not tile {list(ref.shape)}")


def _block(size: int, blocks: int) -> int:
    """The length of a block where `blocks` of them cover `size`: all of it, else a power of two, else 0."""
    if blocks == 1:
        return size
    return next((n for n in (128, 64, 32, 256, 512, 16) if -(-size // n) == blocks), 0)


def _value(pair: KeyValue) -> bytes:
    if pair.type in SCALARS:
        return struct.pack("<I", pair.type.value) + struct.pack(SCALARS[pair.type], pair.value)
    if pair.type is KeyType.STRING:
        return struct.pack("<I", pair.type.value) + _string(pair.value)
    inner = pair.type.value - 100
    start = struct.pack("<IIQ", 9, inner, len(pair.value))
    if pair.type is KeyType.STRINGS:
        texts = [text.encode("utf-8") for text in pair.value]
        return start + b"".join([part for text in texts for part in (len(text).to_bytes(8, "little"), text)])
    return start + np.asarray(pair.value, "<i4").tobytes()


def _string(text: str) -> bytes:
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def total_bytes(tensors: Iterable[PlannedTensor]) -> int:
    """The bytes of tensor data that a plan will write."""
    return sum(tensor.nbytes for tensor in tensors)
