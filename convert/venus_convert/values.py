"""What crosses between the steps of a conversion. Frozen values, no logic beyond their own arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import prod
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class TensorRef:
    """Where one tensor of a checkpoint lies: `offset` from the start of the file, `dtype` in safetensors' spelling."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    path: Path
    offset: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """An opened folder: its configuration files as read, its tensors by the names they have there, and what was odd."""

    folder: Path
    config: Mapping[str, Any]
    generation: Mapping[str, Any]
    tensors: Mapping[str, TensorRef]
    notes: tuple[str, ...] = ()


class TensorType(Enum):
    """The tensor types this converter writes itself: ggml's name, its number, and the file type llama.cpp records."""

    F32 = ("F32", 0, 0)
    F16 = ("F16", 1, 1)
    Q8_0 = ("Q8_0", 8, 7)
    BF16 = ("BF16", 30, 32)

    def __init__(self, label: str, ggml: int, ftype: int) -> None:
        self.label = label
        self.ggml = ggml
        self.ftype = ftype

    def nbytes(self, shape: tuple[int, ...]) -> int:
        """Bytes of a tensor of that shape; a Q8_0 block is 32 values in 34 bytes."""
        count = prod(shape)
        if self is TensorType.Q8_0:
            return count // 32 * 34
        return count * (4 if self is TensorType.F32 else 2)


@dataclass(frozen=True, slots=True)
class Geometry:
    """The shape of a dense Qwen3, from its configuration and, where that is silent, from its tensors."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocab: int
    rms_eps: float


@dataclass(frozen=True, slots=True)
class PlannedTensor:
    """One tensor of the file to write: its llama.cpp name, its type, and the source with its FP8 scale, if any."""

    name: str
    type: TensorType
    source: TensorRef
    scale: TensorRef | None = None

    @property
    def nbytes(self) -> int:
        return self.type.nbytes(self.source.shape)


@dataclass(frozen=True, slots=True)
class Scaling:
    """RoPE scaling as llama.cpp stores it; `attention` multiplies what llama.cpp derives from the factor itself."""

    kind: str
    factor: float
    original: int
    attention: float | None = None
    beta_fast: float | None = None
    beta_slow: float | None = None
    extrapolation: float | None = None


@dataclass(frozen=True, slots=True)
class Rope:
    """The positions of a model: `context` tokens of window, theta, and scaling where the window needs it."""

    context: int
    theta: float
    scaling: Scaling | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokenizer as llama.cpp stores it. `types` are llama.cpp's numbers; `stops` every id that ends a turn."""

    tokens: tuple[str, ...]
    types: tuple[int, ...]
    merges: tuple[str, ...]
    eos: int
    stops: tuple[int, ...]
    pad: int | None
    bos: int | None
    template: str | None
    named_templates: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class KeyType(Enum):
    """GGUF's value types, by their numbers in the format."""

    UINT32 = 4
    INT32 = 5
    FLOAT32 = 6
    BOOL = 7
    STRING = 8
    STRINGS = 108
    INT32S = 105


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key-value pair of a GGUF file."""

    key: str
    type: KeyType
    value: Any
