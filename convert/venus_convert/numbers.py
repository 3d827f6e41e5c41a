"""Bytes of one number type -> values -> bytes of another, a window at a time. numpy only.

In: raw bytes as a safetensors file holds them. Out: raw bytes as a GGUF file holds them. Raises ConversionError naming
the tensor for NaN, infinity, and what the target type cannot hold. It reads no files.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from venus_convert.values import TensorType
from venus_edge.errors import ConversionError

Floats: TypeAlias = npt.NDArray[np.float32]
Raw: TypeAlias = "npt.NDArray[np.uint8]"

STORED = {"BF16": TensorType.BF16, "F16": TensorType.F16, "F32": TensorType.F32}
EXPONENT = {TensorType.BF16: 0x7F80, TensorType.F16: 0x7C00, TensorType.F32: 0x7F800000}


def recode(raw: Raw, dtype: str, target: TensorType, name: str) -> Raw:
    """The same values in the target type; `raw` itself where the type is already that one. Finite or refused."""
    if STORED.get(dtype) is target:
        _refuse_not_finite(raw, target, name)
        return raw
    return encode(decode(raw, dtype), target, name)


def decode(raw: Raw, dtype: str) -> Floats:
    """Values as f32. F64 beyond f32 becomes infinite here and is refused when encoded."""
    if dtype == "BF16":
        return (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    if dtype in ("F16", "F32", "F64"):
        with np.errstate(over="ignore"):
            return raw.view({"F16": "<f2", "F32": "<f4", "F64": "<f8"}[dtype]).astype(np.float32)
    return _fp8_table(dtype)[raw]


def encode(values: Floats, target: TensorType, name: str) -> Raw:
    """f32 values in the target type, rounded to the nearest, ties to even."""
    if not np.isfinite(values).all():
        raise ConversionError(_not_finite(name))
    if target is TensorType.F32:
        return values.view(np.uint8)
    if target is TensorType.Q8_0:
        return _q8_0(values, name)
    with np.errstate(over="ignore"):
        out = _to_bf16(values) if target is TensorType.BF16 else values.astype("<f2").view(np.uint8)
    if _has_special(out, target):
        largest = float(np.abs(values).max())
        raise ConversionError(
            f"{name} holds {largest:g}, which {target.label.lower()} cannot; use --outtype bf16 or f32"
        )
    return out


def _to_bf16(values: Floats) -> Raw:
    bits = values.view(np.uint32)
    return ((bits + (0x7FFF + ((bits >> 16) & 1))) >> 16).astype("<u2").view(np.uint8)


def _q8_0(values: Floats, name: str) -> Raw:
    from gguf import GGMLQuantizationType, quants

    largest = float(np.abs(values).max(initial=0))
    if largest > 127 * 65504:  # a block's scale is an f16
        raise ConversionError(f"{name} holds {largest:g}, which q8_0 cannot; use --outtype bf16 or f32")
    out: Raw = quants.quantize(values.reshape(-1, 32), GGMLQuantizationType.Q8_0).reshape(-1)
    return out


def _has_special(raw: Raw, kind: TensorType) -> bool:
    """Whether any value is infinite or NaN: two maxima, which is as fast as memory.

    As signed numbers the largest bit patterns are +inf and +NaN, as unsigned ones -inf and -NaN.
    """
    width, limit = (4 if kind is TensorType.F32 else 2), EXPONENT[kind]
    if not raw.size:
        return False
    signed, unsigned = raw.view(f"<i{width}"), raw.view(f"<u{width}")
    return bool(signed.max() >= limit or unsigned.max() >= limit + (1 << (8 * width - 1)))


def _refuse_not_finite(raw: Raw, kind: TensorType, name: str) -> None:
    if _has_special(raw, kind):
        raise ConversionError(_not_finite(name))


def _not_finite(name: str) -> str:
    return f"{name} holds NaN or infinity: training diverged or the file is damaged; nothing right can be made of it"


def _fp8_table(dtype: str) -> Floats:
    """All 256 values of an 8-bit float: E4M3FN (bias 7, no infinity) or E5M2 (bias 15)."""
    mantissa_bits, bias = (3, 7) if dtype == "F8_E4M3" else (2, 15)
    codes = np.arange(256)
    exponent = (codes & 0x7F) >> mantissa_bits
    mantissa = (codes & ((1 << mantissa_bits) - 1)) / (1 << mantissa_bits)
    size = np.where(exponent == 0, mantissa * 2.0 ** (1 - bias), (1 + mantissa) * 2.0 ** (exponent - bias))
    special = (codes & 0x7F) == 0x7F if dtype == "F8_E4M3" else exponent == 31
    table: Floats = np.where(special, np.nan, np.where(codes < 128, size, -size)).astype(np.float32)
    return table
