"""Number types: exact where they can be, rounded as llama.cpp rounds, refused where the value would not survive."""

from __future__ import annotations

import numpy as np
import pytest
from venus_convert.numbers import decode, encode, recode
from venus_convert.values import TensorType

from tests.convert.checkpoints import refusal

ALL_BF16 = np.arange(1 << 16, dtype="<u2")
FINITE_BF16 = ALL_BF16[(ALL_BF16 & 0x7F80) != 0x7F80]


def test_every_finite_bf16_keeps_its_bits_through_bf16_and_through_f32() -> None:
    raw = FINITE_BF16.view(np.uint8)
    through = recode(decode(raw, "BF16").view(np.uint8), "F32", TensorType.BF16, "w")
    assert recode(raw, "BF16", TensorType.BF16, "w") is raw
    assert np.array_equal(through, raw)


@pytest.mark.parametrize("bits", [0x7F80, 0xFF80, 0x7F81, 0xFFC0, 0x7FFF, 0xFFFF])
@pytest.mark.parametrize("target", list(TensorType))
def test_no_infinity_or_nan_passes_in_any_type(bits: int, target: TensorType) -> None:
    raw = np.array([0x3F80] * 31 + [bits], "<u2").view(np.uint8)
    assert refusal(lambda: recode(raw, "BF16", target, "blk")).startswith("blk holds NaN or infinity")


def test_rounding_to_bf16_is_to_the_nearest_and_ties_go_to_even() -> None:
    values = np.array([0x3F800000, 0x3F808000, 0x3F818000, 0x3F808001, 0x3F807FFF, 0xBF808001], np.uint32)
    rounded = encode(values.view(np.float32), TensorType.BF16, "w").view("<u2")
    assert rounded.tolist() == [0x3F80, 0x3F80, 0x3F82, 0x3F81, 0x3F80, 0xBF81]


@pytest.mark.parametrize(
    ("value", "target", "said"),
    [(1e5, TensorType.F16, "100000, which f16"), (3.4e38, TensorType.BF16, "3.4e+38, which bf16"),
     (1e7, TensorType.Q8_0, "1e+07, which q8_0")],
)  # fmt: skip
def test_a_value_too_large_for_the_type_is_refused_by_tensor_and_value(
    value: float, target: TensorType, said: str
) -> None:
    assert said in refusal(lambda: encode(np.full(32, value, np.float32), target, "blk.0"))


def test_the_largest_values_of_a_type_are_kept() -> None:
    assert encode(np.array([65504, -65504], np.float32), TensorType.F16, "w").view("<f2").tolist() == [65504, -65504]
    big = np.full(32, 1e5, np.float32)
    assert decode(encode(big, TensorType.BF16, "w"), "BF16").tolist() == [99840.0] * 32
    assert np.isfinite(encode(big, TensorType.Q8_0, "w")[:2].view("<f2")).all()


def test_float64_is_narrowed_and_what_does_not_fit_is_refused() -> None:
    raw = np.array([0.5, -2.0]).view(np.uint8)
    assert recode(raw, "F64", TensorType.F32, "w").view("<f4").tolist() == [0.5, -2.0]
    wide = np.array([1e300]).view(np.uint8)
    assert "w holds NaN or infinity" in refusal(lambda: recode(wide, "F64", TensorType.F32, "w"))


def test_fp8_codes_have_the_values_of_the_standard() -> None:
    e4m3 = decode(np.array([0x00, 0x01, 0x38, 0xB8, 0x7E, 0x08, 0x7F], np.uint8), "F8_E4M3")
    e5m2 = decode(np.array([0x00, 0x01, 0x3C, 0xBC, 0x7B, 0x04, 0x7C], np.uint8), "F8_E5M2")
    assert e4m3[:-1].tolist() == [0.0, 2.0**-9, 1.0, -1.0, 448.0, 2.0**-6]
    assert e5m2[:-1].tolist() == [0.0, 2.0**-16, 1.0, -1.0, 57344.0, 2.0**-14]
    assert np.isnan([e4m3[-1], e5m2[-1]]).all()
