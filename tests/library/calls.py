"""Calls of the library's kernels for the interpreter of TTIR, with what they must give in float64."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from vkernels import library as functions
from vkernels.library.attention import attention_rows
from vkernels.library.dense import mlp_rows
from vkernels.library.elements import drop_elements
from vkernels.library.scans import cumulative_sum_rows, cumulative_sum_segments, sum_of_each_segment
from vkernels.library.segments import sum_segment_rows, sum_segments
from vkernels.library.sparse_products import csr_times_dense
from vkernels.library.stencils import stencil_cross, stencil_square

from ..ir.interpret.ttir.library import TOLERANCES, Call, numbers, rounded


def array(shape: tuple[int, ...], dtype: Any, seed: int, scale: float = 1.0) -> np.ndarray:
    return rounded(scale * np.random.default_rng(seed).normal(size=shape), dtype)


def cumulative_sum(rows: int, columns: int, dtype: Any, seed: int) -> Call:
    x, out = (array((rows, columns), dtype, seed + n) for n in range(2))
    expected = {"out": numbers(x).cumsum(1)}
    tolerance = columns**0.5 * TOLERANCES[dtype]
    return Call(cumulative_sum_rows, {"x": x, "out": out}, {"M": rows, "N": columns}, expected, tolerance)


def segment_totals(rows: int, segments: int, length: int, seed: int) -> Call:
    x, total = array((rows, segments, length), np.float32, seed), array((rows, segments), np.float32, seed)
    sizes = {"M": rows, "S": segments, "L": length}
    return Call(sum_of_each_segment, {"x": x, "total": total}, sizes, {"total": numbers(x).sum(2)}, 1e-5)


def cumulative_sum_in_segments(rows: int, segments: int, length: int, seed: int) -> Call:
    x, out = (array((rows, segments, length), np.float32, seed + n) for n in range(2))
    expected = numbers(x).reshape(rows, -1).cumsum(1).reshape(x.shape)
    arguments = {"x": x, "total": numbers(x).sum(2).astype(np.float32), "out": out}
    return Call(cumulative_sum_segments, arguments, {"M": rows, "S": segments, "L": length}, {"out": expected}, 1e-4)


def stencil(shape: tuple[int, int, int], square: bool, dtype: Any, seed: int) -> Call:
    x, out = (array(shape, dtype, seed + n) for n in range(2))
    weight = array((3, 3) if square else (5,), dtype, seed + 2)
    around = numbers(weight) if square else np.zeros((3, 3))
    if not square:
        around[[0, 1, 1, 1, 2], [1, 0, 1, 2, 1]] = numbers(weight)
    padded, (_, rows, columns) = np.pad(numbers(x), ((0, 0), (1, 1), (1, 1))), shape
    places = [(a, b) for a in range(3) for b in range(3)]
    expected = sum(around[a, b] * padded[:, a : a + rows, b : b + columns] for a, b in places)
    arguments, sizes = {"x": x, "weight": weight, "out": out}, dict(zip("BMN", shape, strict=True))
    kernel = stencil_square if square else stencil_cross
    return Call(kernel, arguments, sizes, {"out": expected}, 4 * TOLERANCES[dtype])


def dropout(rows: int, columns: int, dtype: Any, seed: int) -> Call:
    x, out = (array((rows, columns), dtype, seed + n) for n in range(2))
    arguments = {"x": x, "probability": 0.25, "scale": 4 / 3, "seed": seed, "out": out}
    expected = numbers(functions.dropout(x, 0.25, seed))
    return Call(drop_elements, arguments, {"M": rows, "N": columns}, {"out": expected}, TOLERANCES[dtype])


def segments(lengths: list[int], columns: int | None, dtype: Any, seed: int) -> Call:
    start = np.cumsum([0, *lengths]).astype(np.int32)
    more = () if columns is None else (columns,)
    value, out = array((int(start[-1]), *more), dtype, seed), array((len(lengths), *more), dtype, seed)
    expected = np.stack([numbers(value[a:b]).sum(0) for a, b in pairwise(start)])
    sizes = {"S": len(start), "R": len(lengths), "E": int(start[-1]), **({} if columns is None else {"C": columns})}
    kernel = sum_segments if columns is None else sum_segment_rows
    tolerance = 8 * TOLERANCES[dtype]
    return Call(kernel, {"start": start, "value": value, "out": out}, sizes, {"out": expected}, tolerance)


def sparse_product(lengths: list[int], inner: int, columns: int, dtype: Any, seed: int) -> Call:
    start = np.cumsum([0, *lengths]).astype(np.int32)
    column = np.random.default_rng(seed).integers(0, inner, start[-1]).astype(np.int32)
    value, dense = array((int(start[-1]),), dtype, seed), array((inner, columns), dtype, seed + 1)
    products = numbers(value)[:, None] * numbers(dense)[column]
    bias, out = array((len(lengths),), dtype, seed + 2), array((len(lengths), columns), dtype, seed)
    sums = np.stack([products[a:b].sum(0) for a, b in pairwise(start)]) + numbers(bias)[:, None]
    expected = np.where(sums < 0, 0, sums)
    arguments = {"start": start, "column": column, "value": value, "dense": dense, "bias": bias, "out": out}
    sizes = {"S": len(start), "R": len(lengths), "E": int(start[-1]), "K": inner, "C": columns}
    tolerance = 8 * TOLERANCES[dtype]
    return Call(csr_times_dense, arguments, sizes, {"out": expected}, tolerance, {"activation": "relu"})


def mlp(m: int, k: int, h: int, n: int, dtype: Any, seed: int) -> Call:
    shapes = {"x": (m, k), "w1": (k, h), "b1": (h,), "w2": (h, n), "b2": (n,), "out": (m, n)}
    arguments = {name: array(shape, dtype, seed + at) for at, (name, shape) in enumerate(shapes.items())}
    x, w1, b1, w2, b2, _ = map(numbers, arguments.values())
    hidden = numbers(rounded(np.maximum(x @ w1 + b1, 0), dtype))
    expected, sizes = {"out": hidden @ w2 + b2}, {"M": m, "K": k, "H": h, "N": n}
    tolerance = h**0.5 * k**0.5 * TOLERANCES[dtype]
    return Call(mlp_rows, arguments, sizes, expected, tolerance, {"activation": "relu"})


def attention(
    heads: tuple[int, int, int], rows: int, keys: int, depth: int, values: int, dtype: Any, seed: int, causal: bool
) -> Call:
    """`heads`: batch, heads of keys, heads of queries that share one."""
    q, out = array((*heads, rows, depth), dtype, seed), array((*heads, rows, values), dtype, seed)
    k, v = array((*heads[:2], keys, depth), dtype, seed + 1), array((*heads[:2], keys, values), dtype, seed + 2)
    score = 0.3 * np.einsum("bgrmd,bgnd->bgrmn", numbers(q), numbers(k))
    if causal:
        score = np.where(np.tri(rows, keys, keys - rows, dtype=bool), score, -np.inf)
    e = np.exp(score - score.max(-1, keepdims=True))
    expected = np.einsum("bgrmn,bgne->bgrem", e / e.sum(-1, keepdims=True), numbers(v))
    arguments = {"q": q.swapaxes(3, 4), "k": k, "v": v, "scale": 0.3, "out": out.swapaxes(3, 4)}
    sizes = {**dict(zip("BGR", heads, strict=True)), "M": rows, "N": keys, "D": depth, "E": values}
    return Call(attention_rows, arguments, sizes, {"out": expected}, 4 * TOLERANCES[dtype], {"causal": causal})
