"""arith as the hardware does it, against NumPy and Python's integers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from vkernels.ir.errors import UnsupportedError

from .kernels import DTYPES, FLOATS, INTEGERS, elementwise, run

NAN, INF = math.nan, math.inf
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 3.25, -2.75, INF, -INF, NAN, 65504.0, 1e-7])


def pairs(values):
    a, b = np.meshgrid(values, values)
    return a.ravel(), b.ravel()


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
    "remsi": lambda a, b, w: a - truncating(a, b) * b if b else 0,
    "remui": lambda a, b, w: wrap(a, w, False) % wrap(b, w, False) if b else 0,
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


def test_select_takes_each_element_from_one_side():
    out = elementwise("arith.select %0, %1, %2 : {0}, {1}", [("i1", [1, 0]), ("f32", [1, 2]), ("f32", [NAN, 4])], "f32")
    np.testing.assert_array_equal(out, [1, 4])


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
