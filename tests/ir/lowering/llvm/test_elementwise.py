"""Every elementwise operation against NumPy, over edge values, for sizes that fill registers and sizes that do not."""

from __future__ import annotations

import numpy as np
import pytest

from .memory import guarded, poisoned
from .running import compiled, run
from .texts import elementwise, tile

SIZES = (1, 3, 5, 16, 24, 100)
EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -2.5, 3.7, -3.7, 1e-40, 3e38, -3e38, np.inf, -np.inf, np.nan, 8388609.0]


def values(dtype: str, size: int, seed: int) -> np.ndarray:
    """Random elements with edge values strewn in."""
    rng = np.random.default_rng(seed)
    if dtype.startswith("f"):
        result = rng.normal(0, 10, size).astype(f"f{int(dtype[1:]) // 8}")
        edges = np.array(EDGES).astype(result.dtype)
    else:
        bits = int(dtype[1:])
        least, most = -(1 << bits - 1), (1 << bits - 1) - 1
        result = rng.integers(least, most, size, endpoint=True).astype(f"i{bits // 8}")
        edges = np.array([0, 1, -1, least, most, 7, -7, 2, -2, bits, bits - 1], result.dtype)
    places = rng.random(size) < 0.5
    result[places] = rng.choice(edges, places.sum())
    return result


def where_zero(a: np.ndarray, b: np.ndarray, function) -> np.ndarray:
    """An integer division that is 0 where the divisor is, and wraps where it overflows."""
    wide = [[int(x), int(y)] for x, y in zip(a, b, strict=True)]
    exact = [0 if y == 0 else function(x, y) for x, y in wide]
    return wrapped(exact, a.itemsize)


def wrapped(numbers: list[int], itemsize: int) -> np.ndarray:
    """Integers of any size cut to signed ones of so many bytes."""
    half = 1 << 8 * itemsize - 1
    return np.array([(v + half) % (2 * half) - half for v in numbers], f"i{itemsize}")


def toward_zero(x: int, y: int) -> int:
    return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def unsigned(function):
    """A function of two integers, applied to their unsigned readings."""
    return lambda a, b: where_zero(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}"), function)


def shifted(a: np.ndarray, b: np.ndarray, function) -> np.ndarray:
    bits = 8 * a.itemsize
    amounts = b.view(f"u{b.itemsize}")
    result = [function(int(x), min(int(n), bits)) for x, n in zip(a, amounts, strict=True)]
    return wrapped(result, a.itemsize)


FLOAT_BINARY = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
}

INTEGER_BINARY = {
    "addi": np.add,
    "subi": np.subtract,
    "muli": np.multiply,
    "andi": np.bitwise_and,
    "ori": np.bitwise_or,
    "xori": np.bitwise_xor,
    "maxsi": np.maximum,
    "minsi": np.minimum,
    "maxui": lambda a, b: np.maximum(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}")).view(a.dtype),
    "minui": lambda a, b: np.minimum(a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}")).view(a.dtype),
    "divsi": lambda a, b: where_zero(a, b, toward_zero),
    "remsi": lambda a, b: where_zero(a, b, lambda x, y: x - toward_zero(x, y) * y),
    "floordivsi": lambda a, b: where_zero(a, b, lambda x, y: x // y),
    "ceildivsi": lambda a, b: where_zero(a, b, lambda x, y: -(-x // y)),
    "divui": unsigned(lambda x, y: x // y),
    "remui": unsigned(lambda x, y: x % y),
    "ceildivui": unsigned(lambda x, y: -(-x // y)),
    "shli": lambda a, b: shifted(a, b, lambda x, n: x << n),
    "shrsi": lambda a, b: shifted(a, b, lambda x, n: x >> n),
    "shrui": lambda a, b: shifted(a, b, lambda x, n: (x % (1 << 8 * a.itemsize)) >> n),
}


def check_binary(name: str, dtype: str, function, size: int, register_bytes: int | None = None) -> None:
    a, b = guarded(values(dtype, size, 1)), guarded(values(dtype, size, 2))
    out = poisoned((size,), a.dtype)
    text = elementwise(size, [dtype, dtype], f"%r = arith.{name} %a, %b : {tile(dtype, j=size)}", dtype)
    run(text, [a, b, out], {"N": size}, register_bytes)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out, function(a, b), err_msg=f"{name} {dtype} {size}")


@pytest.mark.parametrize("name", FLOAT_BINARY)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_float_operations_are_numpys(name: str, dtype: str) -> None:
    for size in (3, 100):
        check_binary(name, dtype, FLOAT_BINARY[name], size)


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", INTEGER_BINARY)
@pytest.mark.parametrize("dtype", ["i8", "i16", "i32", "i64"])
def test_integer_operations_are_defined_for_every_operand(name: str, dtype: str) -> None:
    check_binary(name, dtype, INTEGER_BINARY[name], 100)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("register_bytes", [16, 32, 64])
def test_any_size_and_register_gives_the_same(size: int, register_bytes: int) -> None:
    check_binary("subf", "f32", np.subtract, size, register_bytes)


COMPARISONS = {
    "oeq": lambda a, b: a == b,
    "ogt": lambda a, b: a > b,
    "oge": lambda a, b: a >= b,
    "olt": lambda a, b: a < b,
    "ole": lambda a, b: a <= b,
    "one": lambda a, b: (a != b) & ~np.isnan(a) & ~np.isnan(b),
    "ord": lambda a, b: ~np.isnan(a) & ~np.isnan(b),
    "ueq": lambda a, b: (a == b) | np.isnan(a) | np.isnan(b),
    "ugt": lambda a, b: ~(a <= b),
    "uge": lambda a, b: ~(a < b),
    "ult": lambda a, b: ~(a >= b),
    "ule": lambda a, b: ~(a > b),
    "une": lambda a, b: a != b,
    "uno": lambda a, b: np.isnan(a) | np.isnan(b),
}


@pytest.mark.parametrize("predicate", COMPARISONS)
def test_float_comparisons_and_booleans_in_memory(predicate: str) -> None:
    size = 41
    a, b = guarded(values("f32", size, 3)), guarded(values("f32", size, 4))
    out = poisoned((size,), np.uint8)
    body = f"%r = arith.cmpf {predicate}, %a, %b : {tile('f32', j=size)}"
    run(elementwise(size, ["f32", "f32"], body, "i1"), [a, b, out], {"N": size})
    np.testing.assert_array_equal(out, COMPARISONS[predicate](a, b).astype(np.uint8))


@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
@pytest.mark.parametrize("dtype", ["i8", "i64"])
def test_integer_comparisons(predicate: str, dtype: str) -> None:
    size = 37
    a, b = guarded(values(dtype, size, 5)), guarded(values(dtype, size, 6))
    b[::3] = a[::3]
    out = poisoned((size,), np.uint8)
    body = f"%r = arith.cmpi {predicate}, %a, %b : {tile(dtype, j=size)}"
    run(elementwise(size, [dtype, dtype], body, "i1"), [a, b, out], {"N": size})
    if predicate[0] == "u":
        a, b = a.view(f"u{a.itemsize}"), b.view(f"u{b.itemsize}")
    operators = {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}
    expected = operators[predicate[-2:]]
    np.testing.assert_array_equal(out, expected.astype(np.uint8))


def test_select_takes_tiles_and_scalars_as_conditions() -> None:
    size = 21
    condition = guarded((np.arange(size) % 3 == 0).astype(np.uint8) * 255)
    a, b = guarded(values("f32", size, 7)), guarded(values("f32", size, 8))
    out = poisoned((size,), np.float32)
    body = f"%r = arith.select %a, %b, %c : {tile('i1', j=size)}, {tile('f32', j=size)}"
    run(elementwise(size, ["i1", "f32", "f32"], body, "f32"), [condition, a, b, out], {"N": size})
    np.testing.assert_array_equal(out, np.where(condition, a, b))
    body = f"%no = arith.constant false\n%r = arith.select %no, %a, %b : {tile('f32', j=size)}"
    run(elementwise(size, ["f32", "f32"], body, "f32"), [a, b, out], {"N": size})
    np.testing.assert_array_equal(out, b)


UNARY = {
    "math.sqrt": np.sqrt,
    "math.absf": np.abs,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.rint,
    "arith.negf": np.negative,
}


@pytest.mark.parametrize("name", UNARY)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("lanes", ["lanes j", ""])
def test_unary_functions(name: str, dtype: str, lanes: str) -> None:
    size = 53
    a = guarded(values(dtype, size, 9))
    out = poisoned((size,), a.dtype)
    run(elementwise(size, [dtype], f"%r = {name} %a : {tile(dtype, j=size)}", dtype, lanes), [a, out], {"N": size})
    with np.errstate(all="ignore"):
        expected = UNARY[name](a)
    np.testing.assert_array_equal(out, expected)
    assert (np.signbit(out) == np.signbit(expected))[~np.isnan(expected)].all()


def test_multiply_add_and_copysign() -> None:
    size = 24
    a, b, c = (guarded(values("f64", size, seed)) for seed in (1, 2, 3))
    t = tile("f64", j=size)
    out = poisoned((size,), np.float64)
    body = f"%r = math.fma %a, %b, %c : {t}"
    run(elementwise(size, ["f64"] * 3, body, "f64"), [a, b, c, out], {"N": size})
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(out, a * b + c, rtol=1e-12)
    body = f"%r = math.copysign %a, %b : {t}"
    run(elementwise(size, ["f64"] * 2, body, "f64"), [a, b, out], {"N": size})
    np.testing.assert_array_equal(out, np.copysign(a, b))


def test_constants_that_differ_by_element() -> None:
    out = poisoned((5,), np.float32)
    t = tile("f32", j=5)
    body = f"%k = arith.constant dense<[1.0, -0.5, 3.0, 4.0, 0.1]> : {t}\n%r = arith.addf %a, %k : {t}"
    run(elementwise(5, ["f32"], body, "f32"), [guarded(np.ones(5, np.float32)), out], {"N": 5})
    np.testing.assert_array_equal(out, np.float32(1) + np.array([1, -0.5, 3, 4, 0.1], np.float32))


def test_a_clamp_by_constants_keeps_nan_and_costs_two_instructions() -> None:
    size = 64
    t = tile("f32", j=size)
    body = f"""
    %low = arith.constant dense<0.0> : {t}
    %high = arith.constant dense<32.0> : {t}
    %up = arith.maximumf %a, %low : {t}
    %r = arith.minimumf %up, %high : {t}"""
    a, out = guarded(values("f32", size, 10)), poisoned((size,), np.float32)
    text = elementwise(size, ["f32"], body, "f32")
    run(text, [a, out], {"N": size})
    np.testing.assert_array_equal(out, np.clip(a, 0, 32))
    assert "vcmpunord" not in compiled(text).assembly
