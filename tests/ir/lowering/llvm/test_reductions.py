"""Reductions, scans and dots along lanes and across registers, for odd sizes."""

from __future__ import annotations

import numpy as np
import pytest

from .memory import guarded, poisoned
from .running import run
from .texts import facts, tile

REDUCE = {"sum": np.sum, "product": np.prod, "max": np.max, "min": np.min}
SCAN = {"sum": np.cumsum, "product": np.cumprod, "max": np.maximum.accumulate, "min": np.minimum.accumulate}
SHAPES = [(2, 3), (5, 24), (2, 37)]


def numbers(element: str, shape: tuple[int, ...]) -> np.ndarray:
    dtype = f"{element[0]}{int(element[1:]) // 8}"
    rng = np.random.default_rng(0)
    if element[0] == "f":
        return guarded(rng.choice([0.5, 1.0, -1.0, 2.0, -2.0, 1.5], shape).astype(dtype))
    return guarded(rng.integers(-3, 4, shape).astype(dtype))


def reduce_text(line: str, element: str, shape: tuple[int, int], kept: str, lanes: str) -> str:
    i, j = shape
    sizes = {a: n for a, n in (("i", i), ("j", j)) if a in kept}
    index = ", ".join(a if a in kept else "%zero" for a in "ij")
    t, r = tile(element, i=i, j=j), tile(element, **sizes)
    tensor = f"!vk.tensor<[M, N], {element}>"
    return f"""
vk.mapped @reduce(%x: {tensor}, %out: {tensor}) {lanes} {facts({"x": [-1, 1], "out": [-1, 1]})} {{
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  vk.launch "reduce" over (%p = %one) {{
    %t = vk.load %x[i, j] : {tensor} -> {t}
    %r = {line} : {t} {"" if line.startswith("vk.scan") else f"-> {r}"}
    vk.store %r in %out[{index}] : {tensor} <- {r}
  }}
}}
"""


@pytest.mark.sample(8)
@pytest.mark.parametrize("kind", REDUCE)
@pytest.mark.parametrize("element", ["f32", "f64", "i8", "i32", "i64"])
@pytest.mark.parametrize("lanes", ["lanes i", "lanes j", ""])
def test_reductions_along_either_axis(kind: str, element: str, lanes: str) -> None:
    for shape in SHAPES if element == "f32" else SHAPES[-1:]:
        x = numbers(element, shape)
        for axis, kept in ((0, "j"), (1, "i")):
            out = poisoned(tuple(n if a in kept else 1 for a, n in zip("ij", shape, strict=True)), x.dtype)
            run(reduce_text(f"vk.{kind} %t along {'ij'[axis]}", element, shape, kept, lanes), [x, out], {})
            with np.errstate(all="ignore"):
                exact = REDUCE[kind](
                    x, axis=axis, keepdims=True, **({"dtype": x.dtype} if kind in ("sum", "product") else {})
                )
            np.testing.assert_allclose(out, exact, rtol=1e-5 if element[0] == "f" else 0)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("lanes", ["lanes i", "lanes j", ""])
def test_extrema_keep_nan_wherever_it_is(kind: str, lanes: str) -> None:
    shape = (3, 21)
    for place in [(0, 0), (1, 7), (2, 20), (0, 16)]:
        x = numbers("f32", shape)
        x[place] = np.nan
        out = poisoned((3, 1), np.float32)
        run(reduce_text(f"vk.{kind} %t along j", "f32", shape, "i", lanes), [x, out], {})
        np.testing.assert_array_equal(out, REDUCE[kind](x, axis=1, keepdims=True))


@pytest.mark.sample(2)
@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64"])
@pytest.mark.parametrize("lanes", ["lanes i", "lanes j", ""])
def test_extrema_of_unsigned_integers(kind: str, element: str, lanes: str) -> None:
    """Negative numbers are the large ones, in sums of lanes and in what scans shift in."""
    for shape in SHAPES:
        x = numbers(element, shape)
        unsigned = x.view(f"u{x.dtype.name}")
        for axis, kept in ((0, "j"), (1, "i")):
            out = poisoned(tuple(n if a in kept else 1 for a, n in zip("ij", shape, strict=True)), x.dtype)
            run(reduce_text(f"vk.{kind}ui %t along {'ij'[axis]}", element, shape, kept, lanes), [x, out], {})
            exact = REDUCE[kind](unsigned, axis=axis, keepdims=True)
            np.testing.assert_array_equal(out.view(unsigned.dtype), exact)
            out = poisoned(shape, x.dtype)
            run(reduce_text(f"vk.scan {kind}ui %t along {'ij'[axis]}", element, shape, "ij", lanes), [x, out], {})
            np.testing.assert_array_equal(out.view(unsigned.dtype), SCAN[kind](unsigned, axis=axis))


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", SCAN)
@pytest.mark.parametrize("element", ["f32", "i32"])
@pytest.mark.parametrize("lanes", ["lanes i", "lanes j", ""])
def test_scans_along_either_axis(kind: str, element: str, lanes: str) -> None:
    for shape in SHAPES:
        x = numbers(element, shape)
        for axis in (0, 1):
            out = poisoned(shape, x.dtype)
            run(reduce_text(f"vk.scan {kind} %t along {'ij'[axis]}", element, shape, "ij", lanes), [x, out], {})
            with np.errstate(all="ignore"):
                exact = SCAN[kind](x, axis=axis, **({"dtype": x.dtype} if kind in ("sum", "product") else {}))
            np.testing.assert_allclose(out, exact, rtol=1e-5 if element[0] == "f" else 0)


@pytest.mark.sample(5)
@pytest.mark.parametrize("lanes", ["lanes i", "lanes j", "lanes k", ""])
@pytest.mark.parametrize("element", ["f32", "f64", "i32"])
@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 5, 17), (4, 24, 3), (2, 33, 20)])
def test_dot_whichever_axis_lies_along_the_lanes(lanes: str, element: str, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b, c = (f"!vk.tensor<[{d}], {element}>" for d in ("M, K", "K, N", "M, N"))
    ta, tb, tc = tile(element, i=m, k=k), tile(element, k=k, j=n), tile(element, i=m, j=n)
    text = f"""
vk.mapped @dot(%a: {a}, %b: {b}, %c: {c}, %out: {c}) {lanes} {facts()} {{
  %one = arith.constant 1 : i64
  vk.launch "dot" over (%p = %one) {{
    %l = vk.load %a[i, k] : {a} -> {ta}
    %r = vk.load %b[k, j] : {b} -> {tb}
    %s = vk.load %c[i, j] : {c} -> {tc}
    %d = vk.dot %l, %r, %s along k precision ieee : {ta}, {tb}, {tc}
    vk.store %d in %out[i, j] : {c} <- {tc}
  }}
}}
"""
    x, y, z = numbers(element, (m, k)), numbers(element, (k, n)), numbers(element, (m, n))
    out = poisoned((m, n), x.dtype)
    run(text, [x, y, z, out], {})
    np.testing.assert_allclose(out, x @ y + z, rtol=1e-6)


@pytest.mark.parametrize("lanes", ["lanes b", "lanes j", "lanes k"])
def test_batched_dot_in_any_order_of_axes(lanes: str) -> None:
    sizes = {"b": 5, "i": 2, "j": 6, "k": 3, lanes[-1]: 19}
    a, b, c = (tile("f32", **{axis: sizes[axis] for axis in axes}) for axes in ("kbi", "bkj", "jbi"))
    m = "!vk.tensor<[X, Y, Z], f32>"
    text = f"""
vk.mapped @dot(%a: {m}, %b: {m}, %out: {m}) {lanes} {facts()} {{
  %one = arith.constant 1 : i64
  vk.launch "dot" over (%p = %one) {{
    %l = vk.load %a[k, b, i] : {m} -> {a}
    %r = vk.load %b[b, k, j] : {m} -> {b}
    %s = arith.constant dense<0.0> : {c}
    %d = vk.dot %l, %r, %s along k precision ieee : {a}, {b}, {c}
    vk.store %d in %out[j, b, i] : {m} <- {c}
  }}
}}
"""
    x, y = (numbers("f32", tuple(sizes[axis] for axis in axes)) for axes in ("kbi", "bkj"))
    out = poisoned(tuple(sizes[axis] for axis in "jbi"), np.float32)
    run(text, [x, y, out], {})
    np.testing.assert_allclose(out, np.einsum("kbi,bkj->jbi", x, y), rtol=1e-6)


@pytest.mark.sample(2)
@pytest.mark.parametrize("lanes", ["lanes i", "lanes j", ""])
def test_positions_counts_and_broadcasts(lanes: str) -> None:
    """out[j, i] = i * 100 + j where j is below %n, else -1."""
    i, j, t = tile("i64", i=19), tile("i64", j=21), tile("i64", j=21, i=19)
    out_type = "!vk.tensor<[M, N], i64>"
    text = f"""
vk.mapped @positions(%out: {out_type}, %n: i64) {lanes} {facts({"out": [-1, 1]})} {{
  %one = arith.constant 1 : i64
  %hundred = arith.constant 100 : i64
  %no = arith.constant -1 : i64
  vk.launch "positions" over (%p = %one) {{
    %i = vk.position i : {i}
    %j = vk.position j : {j}
    %below = vk.below j < %n : {tile("i1", j=21)}
    %bi = vk.broadcast %i : {i} -> {t}
    %bj = vk.broadcast %j : {j} -> {t}
    %bb = vk.broadcast %below : {tile("i1", j=21)} -> {tile("i1", j=21, i=19)}
    %h = vk.broadcast %hundred : i64 -> {t}
    %none = vk.broadcast %no : i64 -> {t}
    %m = arith.muli %bi, %h : {t}
    %s = arith.addi %m, %bj : {t}
    %r = arith.select %bb, %s, %none : {tile("i1", j=21, i=19)}, {t}
    vk.store %r in %out[j, i] : {out_type} <- {t}
  }}
}}
"""
    for n in (0, 5, 21, 1 << 40, -7):
        out = poisoned((21, 19), np.int64)
        run(text, [out, n], {})
        rows, columns = np.mgrid[:21, :19]
        np.testing.assert_array_equal(out, np.where(rows < n, columns * 100 + rows, -1))
