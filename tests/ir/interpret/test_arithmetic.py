"""arith and math as the hardware does them, against mpmath, exact fractions, torch, and Python's integers."""

from __future__ import annotations

import math
import struct
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vkernels.ir.errors import UnsupportedError

from .kernels import DTYPES, FLOATS, INTEGERS, bfloat16, elementwise, from_bfloat16, run

NAN, INF = math.nan, math.inf
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 3.25, -2.75, INF, -INF, NAN, 65504.0, 1e-7])


def pairs(values):
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


def bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize(
    ("op", "function"),
    [("addf", np.add), ("subf", np.subtract), ("mulf", np.multiply), ("divf", np.divide)],
)
def test_float_arithmetic_rounds_to_the_type_alone(element, op, function):
    a, b = (v.astype(DTYPES[element]) for v in pairs(SPECIAL))
    with np.errstate(all="ignore"):
        expected = function(a, b)
    out = elementwise(f"arith.{op} %0, %1 : {{0}}", [(element, a), (element, b)], element)
    np.testing.assert_array_equal(out, expected)


def test_f32_sums_overflow_and_lose_bits_as_f32_does():
    out = elementwise("arith.addf %0, %1 : {0}", [("f32", [2**24, 3e38]), ("f32", [1, 3e38])], "f32")
    np.testing.assert_array_equal(out, np.array([2**24, INF], np.float32))


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("maximumf", [0.0, 0.0, NAN, NAN, 2.0, INF]),
        ("minimumf", [-0.0, -0.0, NAN, NAN, 1.0, 1.0]),
        ("maxnumf", [0.0, 0.0, 1.0, 1.0, 2.0, INF]),
        ("minnumf", [0.0, 0.0, 1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_maximum_propagates_nan_and_maxnum_does_not(op, expected):
    a, b = [0.0, -0.0, NAN, 1.0, 1.0, 1.0], [-0.0, 0.0, 1.0, NAN, 2.0, INF]
    out = elementwise(f"arith.{op} %0, %1 : {{0}}", [("f32", a), ("f32", b)], "f32")
    np.testing.assert_array_equal(out, np.array(expected, np.float32))
    if op.endswith("imumf"):
        np.testing.assert_array_equal(np.signbit(out[:2]), np.signbit(expected[:2]))


ORDERED = {
    "oeq": lambda a, b: a == b,
    "ogt": lambda a, b: a > b,
    "oge": lambda a, b: a >= b,
    "olt": lambda a, b: a < b,
    "ole": lambda a, b: a <= b,
    "one": lambda a, b: a < b or a > b,
    "ord": lambda a, b: True,
    "false": lambda a, b: False,
}


@pytest.mark.parametrize("predicate", [*ORDERED, "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"])
def test_float_comparisons_with_nan(predicate):
    a, b = pairs([0.0, -0.0, 1.0, -INF, INF, NAN])
    out = elementwise(f"arith.cmpf {predicate}, %0, %1 : {{0}}", [("f64", a), ("f64", b)], "i1")
    negated = {"ueq": "one", "ugt": "ole", "uge": "olt", "ult": "oge", "ule": "ogt", "une": "oeq", "uno": "ord",
               "true": "false"}  # fmt: skip
    for x, y, actual in zip(a, b, out, strict=True):
        ordered = not (math.isnan(x) or math.isnan(y))
        if predicate in ORDERED:
            assert actual == (ordered and ORDERED[predicate](x, y))
        else:
            assert actual == (not (ordered and ORDERED[negated[predicate]](x, y)))


def integers(element: str) -> np.ndarray:
    info = np.iinfo(DTYPES[element])
    return np.array([0, 1, -1, 2, -2, 3, 7, -7, 100, -100, info.max, info.min, info.min + 1, info.max - 1])


def wrap(value: int, width: int, signed: bool = True) -> int:
    value &= 2**width - 1
    return value - 2**width if signed and value >> (width - 1) else value


def truncating(a: int, b: int) -> int:
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


BINARY = {
    "addi": lambda a, b, w: a + b,
    "subi": lambda a, b, w: a - b,
    "muli": lambda a, b, w: a * b,
    "divsi": lambda a, b, w: truncating(a, b),
    "divui": lambda a, b, w: truncating(wrap(a, w, False), wrap(b, w, False)),
    "floordivsi": lambda a, b, w: a // b if b else 0,
    "ceildivsi": lambda a, b, w: -(-a // b) if b else 0,
    "ceildivui": lambda a, b, w: -(-wrap(a, w, False) // wrap(b, w, False)) if b else 0,
    "remsi": lambda a, b, w: a - truncating(a, b) * b,
    "remui": lambda a, b, w: wrap(a, w, False) % wrap(b, w, False) if b else a,
    "maxsi": lambda a, b, w: max(a, b),
    "minsi": lambda a, b, w: min(a, b),
    "maxui": lambda a, b, w: max(a, b, key=lambda x: wrap(x, w, False)),
    "minui": lambda a, b, w: min(a, b, key=lambda x: wrap(x, w, False)),
    "andi": lambda a, b, w: a & b,
    "ori": lambda a, b, w: a | b,
    "xori": lambda a, b, w: a ^ b,
    "shli": lambda a, b, w: a << b if 0 <= b < w else 0,
    "shrsi": lambda a, b, w: a >> b if 0 <= b < w else a >> w,
    "shrui": lambda a, b, w: wrap(a, w, False) >> b if 0 <= b < w else 0,
}


@pytest.mark.parametrize("element", INTEGERS)
@pytest.mark.parametrize("op", BINARY)
def test_integers_wrap_around(element, op):
    a, b = pairs(integers(element))
    width = int(element[1:])
    out = elementwise(f"arith.{op} %0, %1 : {{0}}", [(element, a), (element, b)], element)
    expected = [wrap(BINARY[op](int(x), int(y), width), width) for x, y in zip(a, b, strict=True)]
    assert out.tolist() == expected


@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
@pytest.mark.parametrize("element", ["i1", "i8", "i64"])
def test_integer_comparisons_signed_and_unsigned(predicate, element):
    width = int(element[1:])
    a, b = pairs([False, True] if element == "i1" else integers(element))
    out = elementwise(f"arith.cmpi {predicate}, %0, %1 : {{0}}", [(element, a), (element, b)], "i1")
    compare = {"eq": "__eq__", "ne": "__ne__"}.get(predicate) or f"__{predicate[1:]}__"
    views = [[wrap(int(x), width, predicate[0] != "u") for x in values] for values in (a, b)]
    assert out.tolist() == [getattr(x, compare)(y) for x, y in zip(*views, strict=True)]


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("addi", [0, 1, 1, 0]),
        ("muli", [0, 0, 0, 1]),
        ("subi", [0, 1, 1, 0]),
        ("xori", [0, 1, 1, 0]),
        ("maxsi", [0, 0, 0, 1]),
        ("maxui", [0, 1, 1, 1]),
        ("minsi", [0, 1, 1, 1]),
    ],
)
def test_truth_values_are_integers_of_one_bit(op, expected):
    """As a signed number, true is -1."""
    a, b = [False, False, True, True], [False, True, False, True]
    assert elementwise(f"arith.{op} %0, %1 : {{0}}", [("i1", a), ("i1", b)], "i1").tolist() == list(map(bool, expected))


def test_extended_addition_and_multiplication():
    a, b = (v.astype(np.int64) for v in pairs(integers("i64")))
    text = """
        vk.kernel @k(%a: !vk.tensor<[N], i64>, %b: !vk.tensor<[N], i64>, %low: !vk.tensor<[N], i64>,
                     %high: !vk.tensor<[N], i64>, %over: !vk.tensor<[N], i1>) {
          %n = vk.size N
          vk.tile i < %n
          %x = vk.load %a[i] : !vk.tensor<[N], i64> -> T
          %y = vk.load %b[i] : !vk.tensor<[N], i64> -> T
          %s, %o = arith.addui_extended %x, %y : T, B
          %l, %h = arith.mulOPi_extended %x, %y : T
          vk.store %l in %low[i] : !vk.tensor<[N], i64> <- T
          vk.store %h in %high[i] : !vk.tensor<[N], i64> <- T
          vk.store %o in %over[i] : !vk.tensor<[N], i1> <- B
        }""".replace("T\n", "tensor<?xi64, #vk.axes<i>>\n").replace("B\n", "tensor<?xi1, #vk.axes<i>>\n")
    text = text.replace("T, tensor", "tensor<?xi64, #vk.axes<i>>, tensor")
    for op, signed in (("s", True), ("u", False)):
        low, high, over = np.zeros_like(a), np.zeros_like(a), np.zeros(a.shape, bool)
        run(text.replace("OP", op), a=a, b=b, low=low, high=high, over=over)
        for n, (x, y) in enumerate(zip(a.tolist(), b.tolist(), strict=True)):
            product = wrap(x, 64, signed) * wrap(y, 64, signed)
            assert (low[n], high[n]) == (wrap(product, 64), wrap(product >> 64, 64))
            assert over[n] == (wrap(x, 64, False) + wrap(y, 64, False) >= 2**64)


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


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=64))
def test_f32_rounds_to_bf16_as_torch_does(patterns):
    x = np.array(patterns, np.uint32).view(np.float32)
    out = elementwise("arith.truncf %0 : {0} to {result}", [("f32", x)], "bf16")
    expected = torch.tensor(x).to(torch.bfloat16).view(torch.int16).numpy().view(np.uint16)
    nan = np.isnan(x)
    np.testing.assert_array_equal(out[~nan], expected[~nan])
    assert np.isnan(from_bfloat16(out[nan])).all()


@settings(max_examples=200, deadline=None)
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


def test_select_takes_each_element_from_one_side():
    out = elementwise("arith.select %0, %1, %2 : {0}, {1}", [("i1", [1, 0]), ("f32", [1, 2]), ("f32", [NAN, 4])], "f32")
    np.testing.assert_array_equal(out, [1, 4])


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


@settings(max_examples=200, deadline=None)
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


def test_constants_of_every_type():
    values = {"f64": 0.1, "f32": 0.1, "f16": 0.1, "i8": -3, "i16": 300, "i32": -1, "i64": 2**62}
    for element, value in values.items():
        out = np.zeros((), DTYPES[element])
        run(
            f"""vk.kernel @k(%out: !vk.tensor<[], {element}>) {{
              %c = arith.constant {value} : {element}
              vk.store %c in %out[] : !vk.tensor<[], {element}> <- {element}
            }}""",
            out=out,
        )
        assert out == np.array(value, DTYPES[element])


def test_a_type_without_numbers_is_refused():
    with pytest.raises(UnsupportedError, match="no numbers of type f128"):
        run("vk.kernel @k(%x: !vk.tensor<[], f128>) {\n}", x=np.zeros((), np.float64))
