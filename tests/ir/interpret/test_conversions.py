"""Conversions between dtypes: rounding once, saturating, keeping bits."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from .kernels import bfloat16, elementwise, from_bfloat16

NAN, INF = math.nan, math.inf


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")


def test_floats_to_integers_truncate_and_saturate():
    x = [1.9, -1.9, 127.5, 128.0, -129.0, NAN, INF, -INF]
    assert elementwise("arith.fptosi %0 : {0} to {result}", [("f32", x)], "i8").tolist() == [
        1, -1, 127, 127, -128, 0, 127, -128,
    ]  # fmt: skip
    unsigned = elementwise("arith.fptoui %0 : {0} to {result}", [("f32", [1.9, 200.0, 300.0, -1.0])], "i8")
    assert unsigned.view(np.uint8).tolist() == [1, 200, 255, 0]
    wide = elementwise("arith.fptosi %0 : {0} to {result}", [("f64", [2.0**63, -(2.0**63), 2.0**62, -1e300])], "i64")
    assert wide.tolist() == [2**63 - 1, -(2**63), 2**62, -(2**63)]


def test_integers_to_floats_round_once():
    x = [2**53 + 1, 2**63 - 1, -(2**63), 2**24 + 1, 2**24 + 3]
    f32 = elementwise("arith.sitofp %0 : {0} to {result}", [("i64", x)], "f32")
    assert f32.tolist() == torch.tensor(x).float().tolist()
    assert elementwise("arith.uitofp %0 : {0} to {result}", [("i8", [-1, 1])], "f32").tolist() == [255.0, 1.0]
    assert elementwise("arith.sitofp %0 : {0} to {result}", [("i1", [True])], "f32").tolist() == [-1.0]
    assert elementwise("arith.uitofp %0 : {0} to {result}", [("i1", [True])], "f32").tolist() == [1.0]
    half = elementwise("arith.sitofp %0 : {0} to {result}", [("i32", [2049, 2051, 65519, 65520])], "f16")
    assert half.tolist() == [2048.0, 2052.0, 65504.0, INF]


def test_integer_widths_change():
    assert elementwise("arith.extsi %0 : {0} to {result}", [("i8", [-1, 5])], "i32").tolist() == [-1, 5]
    assert elementwise("arith.extui %0 : {0} to {result}", [("i8", [-1, 5])], "i32").tolist() == [255, 5]
    assert elementwise("arith.extsi %0 : {0} to {result}", [("i1", [True])], "i64").tolist() == [-1]
    assert elementwise("arith.extui %0 : {0} to {result}", [("i1", [True])], "i64").tolist() == [1]
    assert elementwise("arith.trunci %0 : {0} to {result}", [("i32", [257, -129])], "i8").tolist() == [1, 127]
    assert elementwise("arith.trunci %0 : {0} to {result}", [("i32", [2, 3])], "i1").tolist() == [False, True]


def test_bits_are_kept_by_bitcasts():
    x = np.array([1.5, -0.0, NAN], np.float32)
    out = elementwise("arith.bitcast %0 : {0} to {result}", [("f32", x)], "i32")
    np.testing.assert_array_equal(out, x.view(np.int32))
    back = elementwise("arith.bitcast %0 : {0} to {result}", [("i32", out)], "f32")
    np.testing.assert_array_equal(bits(back), bits(x))
    payload = np.array([0x7FC1, 0xFF81, 0x3F80], np.uint16)
    as_integers = elementwise("arith.bitcast %0 : {0} to {result}", [("bf16", payload)], "i16")
    np.testing.assert_array_equal(as_integers.view(np.uint16), payload)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=64))
def test_f32_rounds_to_bf16_as_torch_does(patterns):
    x = np.array(patterns, np.uint32).view(np.float32)
    out = elementwise("arith.truncf %0 : {0} to {result}", [("f32", x)], "bf16")
    expected = torch.tensor(x).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    nan = np.isnan(x)
    np.testing.assert_array_equal(out[~nan], expected[~nan])
    assert np.isnan(from_bfloat16(out[nan])).all()


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(st.floats(width=64), min_size=1, max_size=32))
def test_f64_rounds_to_bf16_once(values):
    """By way of f32 it would round twice: 1 + 2⁻⁸ + 2⁻⁴⁰ is nearer to 1 + 2⁻⁷."""
    values = [*values, 1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, -(1 + 3 * 2.0**-8 - 2.0**-50)]
    out = from_bfloat16(elementwise("arith.truncf %0 : {0} to {result}", [("f64", values)], "bf16"))
    for value, actual in zip(values, out, strict=True):
        if not math.isfinite(value) or abs(value) > 3.39e38:
            assert math.isnan(value) if np.isnan(actual) else abs(actual) > 3.38e38
            continue
        step = Fraction(2) ** (max(math.frexp(value)[1] - 8, -133))
        exact = Fraction(value) / step
        assert Fraction(float(actual)) / step == round(exact)


@pytest.mark.parametrize("element", ["f8E4M3FN", "f8E5M2"])
def test_f8_rounds_and_widens_as_torch_does(element):
    dtype = {"f8E4M3FN": torch.float8_e4m3fn, "f8E5M2": torch.float8_e5m2}[element]
    patterns = np.arange(256, dtype=np.uint8)
    values = elementwise("arith.extf %0 : {0} to {result}", [(element, patterns)], "f32")
    np.testing.assert_array_equal(values, torch.tensor(patterns).view(dtype).float().numpy())
    finite = np.sort(values[np.isfinite(values)])
    ties = (finite[1:] + finite[:-1]) / 2
    x = np.concatenate([finite, ties, np.nextafter(ties, INF), np.nextafter(ties, -INF), [INF, -INF, 1e30, 465, 61440]])
    bits = elementwise("arith.truncf %0 : {0} to {result}", [("f32", x)], element)
    expected = torch.tensor(x, dtype=torch.float32).to(dtype).view(torch.uint8).numpy()
    np.testing.assert_array_equal(bits, expected)


def test_half_and_bf16_widen_exactly():
    x = bfloat16([1.0, -0.0, 3.0e38 // 1 * 0 + 2.0**120, INF])
    out = elementwise("arith.extf %0 : {0} to {result}", [("bf16", x)], "f32")
    np.testing.assert_array_equal(out, from_bfloat16(x))
    half = np.array([65504, 6e-8, -0.0], np.float16)
    np.testing.assert_array_equal(elementwise("arith.extf %0 : {0} to {result}", [("f16", half)], "f64"), half)
