"""Broadcasts, reductions, scans, dots, prints and assertions, against NumPy in higher precision."""

from __future__ import annotations

import numpy as np
import pytest

from vkernels.ir.errors import CheckError
from vkernels.ir.interpret import interpret
from vkernels.ir.text import parse_module

from .kernels import DTYPES, INTEGERS, program, run, tile

NUMPY = {"sum": np.sum, "product": np.prod, "max": np.max, "min": np.min}
SCANS = {
    "sum": np.cumsum,
    "product": np.cumprod,
    "max": np.maximum.accumulate,
    "min": np.minimum.accumulate,
}


def reduced(kind: str, x: np.ndarray, element: str) -> np.ndarray:
    """Along the first axis of two, so that the order of axes matters."""
    out = np.full(x.shape[1], 77, x.dtype)
    body = f"""
      %v = vk.load %x[i, j] : !vk.tensor<[M, N], {element}> -> {tile(element, "i", "j")}
      %r = vk.{kind} %v along i : {tile(element, "i", "j")} -> {tile(element, "j")}
      vk.store %r in %out[j] : !vk.tensor<[N], {element}> <- {tile(element, "j")}
    """
    parameters = {"x": (f"!vk.tensor<[M, N], {element}>", x), "out": (f"!vk.tensor<[N], {element}>", out)}
    return program(body, parameters, {"i": "M", "j": "N"})["out"]


@pytest.mark.parametrize("shape", [(7, 3), (1, 5), (100, 1), (3, 0)])
@pytest.mark.parametrize("kind", NUMPY)
def test_float_reductions(kind, shape):
    x = np.random.default_rng(5).normal(size=shape)
    for element, tolerance in (("f64", 1e-14), ("f32", 2e-6)):
        typed = x.astype(DTYPES[element])
        expected = NUMPY[kind](typed.astype(np.longdouble), axis=0)
        np.testing.assert_allclose(reduced(kind, typed, element), expected, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("element", INTEGERS)
@pytest.mark.parametrize("kind", NUMPY)
def test_integer_reductions_wrap_around(kind, element):
    x = np.random.default_rng(6).integers(-100, 100, (9, 4)).astype(DTYPES[element])
    with np.errstate(over="ignore"):
        expected = NUMPY[kind](x.astype(np.int64), axis=0).astype(DTYPES[element])
    np.testing.assert_array_equal(reduced(kind, x, element), expected)


@pytest.mark.parametrize(
    ("kind", "element", "neutral"),
    [
        ("sum", "f32", 0.0),
        ("product", "f32", 1.0),
        ("max", "f32", -np.inf),
        ("min", "f64", np.inf),
        ("max", "i8", -128),
        ("min", "i64", 2**63 - 1),
        ("sum", "i32", 0),
        ("product", "i16", 1),
        ("max", "i1", True),
        ("min", "i1", False),
        ("sum", "i1", False),
    ],
)
def test_an_axis_without_positions_gives_the_neutral_element(kind, element, neutral):
    """Of one-bit integers, true is -1: the least."""
    assert reduced(kind, np.zeros((0, 2), DTYPES[element]), element).tolist() == [neutral, neutral]


def test_maximum_and_minimum_are_nan_if_any_element_is():
    x = np.array([[1, np.nan], [np.inf, 2]], np.float32)
    np.testing.assert_array_equal(reduced("max", x, "f32"), [np.inf, np.nan])
    np.testing.assert_array_equal(reduced("min", x, "f32"), [1, np.nan])


def test_f32_sums_are_f32():
    x = np.array([[2.0**24], [1.0], [-(2.0**24)]], np.float32)
    assert reduced("sum", x, "f32").dtype == np.float32
    assert reduced("sum", np.full((2, 1), 3e38, np.float32), "f32").tolist() == [np.inf]


@pytest.mark.parametrize("axis", ["i", "j"])
@pytest.mark.parametrize("kind", SCANS)
@pytest.mark.parametrize("element", ["f64", "i32"])
def test_scans_include_their_own_element(kind, axis, element):
    random = np.random.default_rng(7)
    x = random.normal(size=(4, 5)) if element == "f64" else random.integers(-9, 9, (4, 5))
    x = x.astype(DTYPES[element])
    body = f"""
      %v = vk.load %x[i, j] : !vk.tensor<[M, N], {element}> -> {tile(element, "i", "j")}
      %r = vk.scan {kind} %v along {axis} : {tile(element, "i", "j")}
      vk.store %r in %out[i, j] : !vk.tensor<[M, N], {element}> <- {tile(element, "i", "j")}
    """
    type_ = f"!vk.tensor<[M, N], {element}>"
    out = program(body, {"x": (type_, x), "out": (type_, np.zeros_like(x))}, {"i": "M", "j": "N"})["out"]
    np.testing.assert_allclose(out, SCANS[kind](x, axis="ij".index(axis)).astype(x.dtype), rtol=1e-13)


def dot(left: np.ndarray, right: np.ndarray, initial: np.ndarray, element: str, precision: str) -> np.ndarray:
    """Batched over b: initial[n, b, m] + Σ_k left[b, m, k] · right[k, n, b]."""
    t = lambda *axes: tile(element, *axes)  # noqa: E731
    body = f"""
      %l = vk.load %left[b, m, k] : !vk.tensor<[B, M, K], {element}> -> {t("b", "m", "k")}
      %r = vk.load %right[k, n, b] : !vk.tensor<[K, N, B], {element}> -> {t("k", "n", "b")}
      %s = vk.load %sum[b, m, n] : !vk.tensor<[B, M, N], {element}> -> {t("b", "m", "n")}
      %d = vk.dot %l, %r, %s along k precision {precision} : {t("b", "m", "k")}, {t("k", "n", "b")}, {t("b", "m", "n")}
      vk.store %d in %sum[b, m, n] : !vk.tensor<[B, M, N], {element}> <- {t("b", "m", "n")}
    """
    parameters = {
        "left": (f"!vk.tensor<[B, M, K], {element}>", left),
        "right": (f"!vk.tensor<[K, N, B], {element}>", right),
        "sum": (f"!vk.tensor<[B, M, N], {element}>", initial),
    }
    return program(body, parameters, {"b": "B", "m": "M", "n": "N", "k": "K"})["sum"]


@pytest.mark.parametrize("k", [0, 1, 17])
def test_dots_contract_one_axis_and_keep_shared_ones(k):
    random = np.random.default_rng(8)
    left, right, start = random.normal(size=(2, 3, k)), random.normal(size=(k, 4, 2)), random.normal(size=(2, 3, 4))
    expected = start + np.einsum("bmk,knb->bmn", left, right)
    np.testing.assert_allclose(dot(left, right, start.copy(), "f64", "ieee"), expected, rtol=1e-12)
    single = [array.astype(np.float32) for array in (left, right, start.copy())]
    np.testing.assert_allclose(dot(*single, "f32", "ieee"), expected, rtol=1e-5, atol=1e-5)
    whole = [(array * 10).astype(np.int32) for array in (left, right, start.copy())]
    exact = whole[2] + np.einsum("bmk,knb->bmn", whole[0], whole[1])
    np.testing.assert_array_equal(dot(*whole, "i32", "ieee"), exact)


def test_tf32_dots_round_their_operands_to_ten_bits():
    left = np.full((1, 1, 1), 1 + 2.0**-11 + 2.0**-12, np.float32)
    right, start = np.ones((1, 1, 1), np.float32), np.zeros((1, 1, 1), np.float32)
    assert dot(left, right, start.copy(), "f32", "tf32").item() == 1 + 2.0**-10
    assert dot(left, right, start.copy(), "f32", "ieee").item() == left.item()


def test_broadcasts_match_axes_by_name():
    x = np.arange(6, dtype=np.int32).reshape(2, 3)
    body = f"""
      %v = vk.load %x[i, j] : !vk.tensor<[M, N], i32> -> {tile("i32", "i", "j")}
      %b = vk.broadcast %v : {tile("i32", "i", "j")} -> {tile("i32", "j", "k", "i")}
      vk.store %b in %out[j, k, i] : !vk.tensor<[N, K, M], i32> <- {tile("i32", "j", "k", "i")}
    """
    parameters = {
        "x": ("!vk.tensor<[M, N], i32>", x),
        "out": ("!vk.tensor<[N, K, M], i32>", np.zeros((3, 4, 2), np.int32)),
    }
    out = program(body, parameters, {"i": "M", "j": "N", "k": "K"})["out"]
    np.testing.assert_array_equal(out, np.broadcast_to(x.T[:, None, :], (3, 4, 2)))


def test_positions_and_what_is_below():
    body = f"""
      %p = vk.position i : {tile("i64", "i")}
      %b = vk.below i < %c : {tile("i1", "i")}
      vk.store %p in %out[i] where %b : !vk.tensor<[N], i64> <- {tile("i64", "i")}
    """
    parameters = {"c": ("i64", 3), "out": ("!vk.tensor<[N], i64>", np.full(5, -1))}
    assert program(body, parameters, {"i": "N"})["out"].tolist() == [0, 1, 2, -1, -1]


def test_prints_go_to_the_caller():
    lines: list[str] = []
    module = parse_module(f"""vk.kernel @k(%x: !vk.tensor<[N], f32>, %c: i64) {{
      %n = vk.size N
      vk.tile i < %n
      %v = vk.load %x[i] : !vk.tensor<[N], f32> -> {tile("f32", "i")}
      vk.print "row =" %v, %c : {tile("f32", "i")}, i64
      vk.print "done"
    }}""")
    interpret(module, {"x": np.array([1, 2.5], np.float32), "c": 7}, on_print=lines.append)
    assert lines == ["row = [1.  2.5] 7", "done"]


def test_a_failed_assertion_says_where_and_with_which_values():
    text = f"""vk.kernel @k(%x: !vk.tensor<[N], f32>) {{
      %n = vk.size N
      vk.tile i < %n
      %row = vk.load %x[i] : !vk.tensor<[N], f32> -> {tile("f32", "i")}
      %zero = arith.constant 0.0 : f32
      %limit = vk.broadcast %zero : f32 -> {tile("f32", "i")}
      %ok = arith.cmpf oge, %row, %limit : {tile("f32", "i")}
      vk.assert %ok, "rows must not be negative" : {tile("i1", "i")}
    }}"""
    run(text, x=np.array([0, 1], np.float32))
    with pytest.raises(CheckError) as error:
        run(text, x=np.array([0, -1.5, -2], np.float32))
    assert str(error.value) == "rows must not be negative\nat i = 1; `row` is -1.5, `limit` is 0.0"
    with pytest.raises(CheckError, match="never"):
        run('vk.kernel @k(%c: i1) {\nvk.assert %c, "never" : i1\n}', c=False)
