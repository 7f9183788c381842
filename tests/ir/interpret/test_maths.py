"""Functions of the math dialect: accuracy against mpmath, edges, fused multiply-add."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .kernels import DTYPES, FLOATS, elementwise

NAN, INF = math.nan, math.inf


UNARY = ["exp", "exp2", "expm1", "sin", "cos", "tan", "tanh", "sinh", "cosh", "asinh", "atan", "erf", "cbrt"]
POSITIVE = ["log", "log2", "log10", "log1p", "sqrt", "rsqrt"]
BELOW_ONE = ["asin", "acos", "atanh"]


def exact(function: str, x: float) -> float:
    special = {
        "exp2": lambda x: mpmath.mpf(2) ** x,
        "log2": lambda x: mpmath.log(x, 2),
        "rsqrt": lambda x: 1 / mpmath.sqrt(x),
        "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    }
    with mpmath.workdps(60):
        return special.get(function, getattr(mpmath, function, None))(mpmath.mpf(x))


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("function", [*UNARY, *POSITIVE, *BELOW_ONE, "acosh"])
def test_maths_functions_err_by_half_a_unit_or_so(element, function):
    random = np.random.default_rng(3)
    x = random.normal(size=40) * 3
    if function in POSITIVE:
        x = np.abs(x) + 1e-3
    elif function in BELOW_ONE:
        x = np.tanh(x) * 0.99
    elif function == "acosh":
        x = 1.1 + np.abs(x)
    x = x.astype(DTYPES[element])
    out = elementwise(f"math.{function} %0 : {{0}}", [(element, x)], element)
    for value, actual in zip(x, out, strict=True):
        error = abs(mpmath.mpf(float(actual)) - exact(function, float(value))) / float(np.spacing(np.abs(actual)))
        assert error <= (2 if element == "f64" else 0.51)


def test_maths_functions_at_the_edges():
    cases = {
        "exp": ([INF, -INF, NAN, 0.0, 1000.0], [INF, 0.0, NAN, 1.0, INF]),
        "log": ([0.0, -1.0, INF, 1.0], [-INF, NAN, INF, 0.0]),
        "sqrt": ([-0.0, -1.0, INF], [-0.0, NAN, INF]),
        "rsqrt": ([0.0, INF, 4.0], [INF, 0.0, 0.5]),
        "tanh": ([INF, -INF, NAN], [1.0, -1.0, NAN]),
        "erf": ([INF, -INF, NAN, 0.0], [1.0, -1.0, NAN, 0.0]),
        "absf": ([-1.5, NAN, -0.0], [1.5, NAN, 0.0]),
        "ceil": ([1.2, -1.2, 2.0], [2.0, -1.0, 2.0]),
        "floor": ([1.2, -1.2, 2.0], [1.0, -2.0, 2.0]),
        "trunc": ([1.9, -1.9], [1.0, -1.0]),
        "round": ([0.5, 1.5, -2.5, 0.49999997, 8388609.0, -0.2], [1.0, 2.0, -3.0, 0.0, 8388609.0, -0.0]),
        "roundeven": ([0.5, 1.5, -2.5], [0.0, 2.0, -2.0]),
    }
    for function, (x, expected) in cases.items():
        out = elementwise(f"math.{function} %0 : {{0}}", [("f32", x)], "f32")
        np.testing.assert_array_equal(out, np.array(expected, np.float32), err_msg=function)


def test_maths_of_two_arguments():
    out = elementwise("math.powf %0, %1 : {0}", [("f32", [2, -2, 0, 2]), ("f32", [10, 3, 0, -1])], "f32")
    assert out.tolist() == [1024, -8, 1, 0.5]
    out = elementwise("math.atan2 %0, %1 : {0}", [("f64", [1, -1, 0]), ("f64", [1, -1, -1])], "f64")
    np.testing.assert_allclose(out, [math.pi / 4, -3 * math.pi / 4, math.pi])
    out = elementwise("math.copysign %0, %1 : {0}", [("f32", [1, 2, NAN]), ("f32", [-0.0, 5, -1])], "f32")
    np.testing.assert_array_equal(np.signbit(out), [True, False, True])
    out = elementwise("math.fpowi %0, %1 : {0}, {1}", [("f32", [1.5, 2]), ("i32", [2, -2])], "f32")
    assert out.tolist() == [2.25, 0.25]
    base, exponent = [3, -1, -1, 2, 0, 2], [4, -3, -4, -1, 0, 31]
    out = elementwise("math.ipowi %0, %1 : {0}", [("i32", base), ("i32", exponent)], "i32")
    assert out.tolist() == [81, -1, 1, 0, 1, -(2**31)]


def test_integer_maths():
    x = [0, 1, -1, 5, 96]
    assert elementwise("math.ctlz %0 : {0}", [("i8", x)], "i8").tolist() == [8, 7, 0, 5, 1]
    assert elementwise("math.cttz %0 : {0}", [("i8", x)], "i8").tolist() == [8, 0, 0, 0, 5]
    assert elementwise("math.ctpop %0 : {0}", [("i8", x)], "i8").tolist() == [0, 1, 8, 2, 2]
    assert elementwise("math.absi %0 : {0}", [("i8", [-128, -3])], "i8").tolist() == [-128, 3]


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(*[st.floats(width=32, allow_nan=False)] * 3), min_size=1, max_size=16))
def test_f32_multiply_add_rounds_once(triples):
    triples = [*triples, (1 + 2**-12, 1 + 2**-12, -(2.0**-90)), (1 + 2**-23, 1 + 2**-23, 2.0**-60)]
    a, b, c = (list(column) for column in zip(*triples, strict=True))
    out = elementwise("math.fma %0, %1, %2 : {0}", [("f32", a), ("f32", b), ("f32", c)], "f32")
    for x, y, z, actual in zip(a, b, c, out, strict=True):
        if all(map(math.isfinite, (x, y, z))):
            assert float(actual) == _nearest_f32(Fraction(x) * Fraction(y) + Fraction(z))


def _nearest_f32(exact: Fraction) -> float:
    if exact == 0:
        return 0.0
    exponent = max(math.frexp(float(exact))[1] - 24, -149) if abs(exact) < Fraction(2) ** 1000 else 200
    step = Fraction(2) ** exponent
    rounded = round(exact / step) * step
    if abs(rounded) >= Fraction(2) ** 128:
        return math.copysign(INF, exact)
    return struct.unpack("f", struct.pack("f", float(rounded)))[0]


def test_f64_multiply_add_keeps_what_rounding_leaves_off():
    a = 1 + 2.0**-30
    factors, added = [("f64", [a, INF, 1e300]), ("f64", [a, 1, 1e300])], ("f64", [-(a * a), 1, -INF])
    out = elementwise("math.fma %0, %1, %2 : {0}", [*factors, added], "f64")
    assert out.tolist() == [2.0**-60, INF, -INF]
