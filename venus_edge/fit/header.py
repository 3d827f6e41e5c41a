"""A MODEL FILE'S FIRST BYTES -> what it is: metadata, tensors, the planner's model. Reads the header, no weights.

In: the path of a GGUF file. Out: a Header. Raises ModelError in one line for a file that is not one, or is cut off.
"""

from __future__ import annotations

import re
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from venus_edge.engine import modelfile
from venus_edge.errors import ModelError
from venus_edge.fit import instead
from venus_edge.fit.sizes import Model, Shape, Weights

Value = str | int | float | bool | list[object]

# ggml's type number -> name, values of a block, bytes of a block
TYPES: dict[int, tuple[str, int, int]] = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 9: ("Q8_1", 32, 36), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66), 17: ("IQ2_XS", 256, 74), 18: ("IQ3_XXS", 256, 98), 19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18), 21: ("IQ3_S", 256, 110), 22: ("IQ2_S", 256, 82), 23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1), 25: ("I16", 1, 2), 26: ("I32", 1, 4), 27: ("I64", 1, 8), 28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56), 30: ("BF16", 1, 2), 34: ("TQ1_0", 256, 54), 35: ("TQ2_0", 256, 66), 39: ("MXFP4", 32, 17),
}  # fmt: skip
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_LONGEST = 64 * 1024 * 1024  # bytes of one string; a longer one is damage
_KEPT = 64  # of an array longer than this only its length matters
FILE_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S", 12: "Q3_K_M",
    13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K", 25: "IQ4_NL", 30: "IQ4_XS",
    32: "BF16",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor: dimensions as the file has them (rows last), bytes, where its data begins after the header."""

    name: str
    shape: tuple[int, ...]
    kind: str
    size: int
    offset: int


@dataclass(frozen=True, slots=True)
class Header:
    """What a file says of itself. Long arrays are kept as their length."""

    path: Path
    size: int
    metadata: Mapping[str, Value]
    tensors: tuple[Tensor, ...]

    def text(self, key: str) -> str:
        value = self.metadata.get(key, "")
        return value if isinstance(value, str) else ""

    def number(self, key: str) -> int:
        """A number of the architecture (`{arch}.key`), 0 if it is not there."""
        value = self.metadata.get(f"{self.architecture}.{key}", 0)
        return int(value) if isinstance(value, int | float) else 0

    @property
    def architecture(self) -> str:
        return self.text("general.architecture")

    @property
    def quant(self) -> str:
        """The quantization by the file's own word, else the type of most of its bytes."""
        kind = self.metadata.get("general.file_type")
        if isinstance(kind, int) and kind in FILE_TYPES:
            return FILE_TYPES[kind]
        bytes_of: dict[str, int] = defaultdict(int)
        for tensor in self.tensors:
            bytes_of[tensor.kind] += tensor.size
        return max(bytes_of, key=lambda name: bytes_of[name], default="")


def read(path: Path) -> Header:
    """The header of a language model's GGUF file, of a split one with the tensors of all parts. Raises ModelError."""
    found = _checked(path)
    for part in _parts(path, found):
        more = _one(part)
        found = replace(found, size=found.size + more.size, tensors=(*found.tensors, *more.tensors))
    instead.check(found)
    return found


def _parts(path: Path, found: Header) -> list[Path]:
    """The other parts of a split model. Raises ModelError for one that is not beside the first."""
    count = found.metadata.get("split.count", 0)
    named = re.search(r"-00001-of-(\d{5})(?=\.gguf$)", path.name)
    if not isinstance(count, int) or count < 2 or not named:
        return []
    parts = [path.with_name(path.name.replace(named[0], f"-{n:05d}-of-{named[1]}")) for n in range(2, count + 1)]
    for part in parts:
        if not part.is_file():
            raise ModelError(f"{path} is one of {count} parts, and {part.name} is not beside it: fetch that too")
    return parts


def _checked(path: Path) -> Header:
    if path.is_dir():
        raise instead.folder(path)
    if path.is_symlink() and not path.exists():
        raise ModelError(f"{path} is a link to {path.readlink()}, which is not there: fetch the model again")
    modelfile.check(path)
    return _one(path)


def _one(path: Path) -> Header:
    try:
        with path.open("rb") as file:
            return _header(path, file, path.stat().st_size)
    except (struct.error, EOFError, UnicodeDecodeError, OverflowError, MemoryError) as error:
        raise ModelError(f"{path} is cut off or damaged in its header: fetch it again") from error
    except OSError as error:
        raise ModelError(f"{path} cannot be read: {error.strerror or error}") from error


def _header(path: Path, file: BinaryIO, size: int) -> Header:
    magic, version, tensors, pairs = struct.unpack("<4sIQQ", _take(file, 24))
    if magic != b"GGUF":
        raise EOFError
    if version not in (2, 3):
        raise instead.version(path, version)
    if max(tensors, pairs) > size:
        raise EOFError
    metadata = {_string(file): _value(file) for _ in range(pairs)}
    table = tuple(_tensor(path, file) for _ in range(tensors))
    alignment = metadata.get("general.alignment", 32)
    begin = _aligned(file.tell(), alignment if isinstance(alignment, int) and alignment > 0 else 32)
    end = max((begin + tensor.offset + tensor.size for tensor in table), default=begin)
    if end > size:
        raise ModelError(f"{path} is cut off: {size:,} of {end:,} bytes are there: fetch it again")
    return Header(path, size, metadata, table)


def _take(file: BinaryIO, count: int) -> bytes:
    data = file.read(count)
    if len(data) < count:
        raise EOFError
    return data


def _string(file: BinaryIO) -> str:
    (length,) = struct.unpack("<Q", _take(file, 8))
    if length > _LONGEST:
        raise EOFError
    return _take(file, length).decode("utf-8", "replace")


def _value(file: BinaryIO) -> Value:
    (kind,) = struct.unpack("<I", _take(file, 4))
    return _typed(file, kind)


def _typed(file: BinaryIO, kind: int) -> Value:
    if kind == _STRING:
        return _string(file)
    if kind == _ARRAY:
        return _array(file)
    if kind not in _SCALARS:
        raise EOFError
    layout = _SCALARS[kind]
    value: Value = struct.unpack(layout, _take(file, struct.calcsize(layout)))[0]
    return value


def _array(file: BinaryIO) -> Value:
    kind, count = struct.unpack("<IQ", _take(file, 12))
    if count <= _KEPT:
        return [_typed(file, kind) for _ in range(count)]
    for _ in _skipped(file, kind, count):
        pass
    return int(count)


def _skipped(file: BinaryIO, kind: int, count: int) -> Iterator[None]:
    if kind in _SCALARS:
        file.seek(count * struct.calcsize(_SCALARS[kind]), 1)
        return
    for _ in range(count):
        _typed(file, kind)
        yield


def _tensor(path: Path, file: BinaryIO) -> Tensor:
    name = _string(file)
    (dimensions,) = struct.unpack("<I", _take(file, 4))
    if dimensions > 8:
        raise EOFError
    shape = struct.unpack(f"<{dimensions}Q", _take(file, 8 * dimensions))
    kind, offset = struct.unpack("<IQ", _take(file, 12))
    if kind not in TYPES:
        raise ModelError(f"{path}: tensor {name} is of a type that is not known ({kind}): use another quantization")
    label, block, size = TYPES[kind]
    count = 1
    for extent in shape:
        count *= extent
    return Tensor(name, shape, label, count // block * size, offset)


def _aligned(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment


# -- what the planner needs -------------------------------------------------------------------------------------------


def model(header: Header) -> Model:
    """The file as the planner's model. Raises ModelError if it does not tell its geometry."""
    shape = Shape(
        layers=header.number("block_count"),
        width=header.number("embedding_length"),
        heads=header.number("attention.head_count"),
        kv_heads=header.number("attention.head_count_kv") or header.number("attention.head_count"),
        head_k=header.number("attention.key_length") or _head(header),
        head_v=header.number("attention.value_length") or _head(header),
        ffn=header.number("feed_forward_length"),
        vocab=_rows(header),
        n_ctx_train=header.number("context_length"),
    )
    if not (shape.layers and shape.width and shape.heads and shape.head_k):
        raise ModelError(f"{header.path} does not tell how it is built ({header.architecture or 'no architecture'})")
    return Model(header.path.stem, shape, {header.quant: _weights(header, shape.layers)})


def _head(header: Header) -> int:
    heads = header.number("attention.head_count")
    return header.number("embedding_length") // heads if heads else 0


def _rows(header: Header) -> int:
    table = next((tensor for tensor in header.tensors if tensor.name == "token_embd.weight"), None)
    return table.shape[-1] if table and table.shape else header.number("vocab_size")


def _weights(header: Header, count: int) -> Weights:
    layers, repacked = [0] * count, defaultdict[str, int](int)
    sizes = {tensor.name: tensor.size for tensor in header.tensors}
    embedding, output = sizes.get("token_embd.weight", 0), sizes.get("output.weight", 0)
    rest = 0
    for tensor in header.tensors:
        found = re.match(r"blk\.(\d+)\.", tensor.name)
        if found and int(found[1]) < count:
            layers[int(found[1])] += tensor.size
            if len(tensor.shape) > 1:
                repacked[tensor.kind] += tensor.size
        elif tensor.name not in ("token_embd.weight", "output.weight"):
            rest += tensor.size
    if output and len(header.tensors) > 1:
        kind = next(tensor.kind for tensor in header.tensors if tensor.name == "output.weight")
        repacked[kind] += output
    tied = "" if output else next((t.kind for t in header.tensors if t.name == "token_embd.weight"), "")
    return Weights(embedding + rest, output or embedding, not output, tuple(layers), dict(repacked), tied)
