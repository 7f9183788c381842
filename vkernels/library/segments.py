"""Sums over consecutive segments of any lengths, and bags of embeddings; with gradients, without atomics."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np
from jaxtyping import Float, Int, Integer

import vkernels.language as vk

from .arrays import Array, empty_like, integers_like
from .declared import OneOf, Result, Size, checked, replayed
from .indices import check_indices, check_starts
from .replay import computed
from .samples import (
    Arrays,
    Constants,
    SampleInputs,
    Sizes,
    coordinates,
    entry,
    random_indices,
    random_starts,
    segments,
)
from .transposes import Transpose, csr_transpose, rows_of

__all__ = ["embedding_bag", "segment_sum"]


@vk.kernel
def sum_segments(
    start: Integer[vk.Tensor, "S"],
    value: Float[vk.Tensor, "E"],
    out: Float[vk.Tensor, "R"],
    width: vk.Constant = 32,
):
    r = vk.tile("R")
    a = vk.whole(width)
    first = start[r].to(vk.int64)  # int64: sums below may overflow shorter integers
    length = start[r + 1].to(vk.int64) - first
    total = vk.zeros((r, a), value.dtype)
    for step in vk.range(0, (length + width - 1) // width):
        left = vk.minimum(length - width * step, width).to(vk.int32)  # of which a vector compares more than of int64
        total += vk.load(value[first + width * step + a], where=vk.cast(a, vk.int32) < left)
    out[r] = vk.sum(total, axis=a)


@vk.kernel
def sum_segment_rows(start: Integer[vk.Tensor, "S"], value: Float[vk.Tensor, "E C"], out: Float[vk.Tensor, "R C"]):
    r = vk.tile("R")
    c = vk.tile("C")
    total = vk.zeros((r, c), value.dtype)
    for e in vk.range(start[r], start[r + 1]):
        total += value[e, c]
    out[r, c] = total


@vk.kernel
def bags_of_rows(
    start: Integer[vk.Tensor, "S"],
    index: Integer[vk.Tensor, "E"],
    table: Float[vk.Tensor, "V C"],
    out: Float[vk.Tensor, "R C"],
    kind: vk.Constant = "sum",
):
    r = vk.tile("R")
    c = vk.tile("C")
    total = vk.full((r, c), float("-inf") if kind == "max" else 0.0, table.dtype)
    for e in vk.range(start[r], start[r + 1]):
        if kind == "max":
            total = vk.maximum(total, table[index[e], c])
        else:
            total += table[index[e], c]
    count = start[r + 1] - start[r]
    out[r, c] = vk.where(count > 0, total / vk.maximum(count, 1) if kind == "mean" else total, 0.0)


@vk.kernel
def spread_over_segments(row: Integer[vk.Tensor, "E"], grad: Float[vk.Tensor, "R C"], out: Float[vk.Tensor, "E C"]):
    e = vk.tile("E")
    c = vk.tile("C")
    at = row[e].to(vk.int64)  # int64: the number of rows may exceed its dtype
    inside = (at >= 0) & (at < vk.size("R"))
    out[e, c] = vk.load(grad[row[e], c], where=inside)


@vk.kernel
def find_largest_of_bags(
    start: Integer[vk.Tensor, "S"],
    index: Integer[vk.Tensor, "E"],
    table: Float[vk.Tensor, "V C"],
    place: Int[vk.Tensor, "R C"],
):
    r = vk.tile("R")
    c = vk.tile("C")
    best = vk.full((r, c), float("-inf"), table.dtype)
    found = vk.full((r, c), -1, vk.int64)
    for e in vk.range(start[r], start[r + 1]):
        row = table[index[e], c]
        better = (found < 0) | (row > best) | (vk.isnan(row) & ~vk.isnan(best))
        best = vk.where(better, row, best)
        found = vk.where(better, e, found)
    place[r, c] = found


@vk.kernel
def bags_gradient(
    start: Integer[vk.Tensor, "S"],
    first: Integer[vk.Tensor, "T"],
    bag: Integer[vk.Tensor, "E"],
    order: Integer[vk.Tensor, "E"],
    place: Int[vk.Tensor, "P C"],
    grad: Float[vk.Tensor, "R C"],
    out: Float[vk.Tensor, "V C"],
    kind: vk.Constant = "sum",
):
    v = vk.tile("V")
    c = vk.tile("C")
    total = vk.zeros((v, c), grad.dtype)
    for e in vk.range(first[v], first[v + 1]):
        share = grad[bag[e], c]
        if kind == "mean":
            share = share / (start[bag[e] + 1] - start[bag[e]])
        if kind == "max":
            share = vk.where(place[bag[e], c] == order[e], share, 0.0)
        total += share
    out[v, c] = total


@replayed
@checked
def segment_sum(
    value: Float[Array, "E"] | Float[Array, "E C"],
    start: Integer[Array, "R+1"],
    out: Result[Array, "R", "value"] | Result[Array, "R C", "value"] | None = None,
    checked: bool = True,
) -> Array:
    """`out[r] = sum of value[start[r] : start[r + 1]]`; 0 for an empty segment.

    `value`: E values, or E × C, of any strides; f64, f32, f16 or bf16, the latter two added in f32. `start`: R + 1
    non-decreasing integers from 0 up to E, as in the CSR format. Returns `out`, or a new array of R
    results, or R × C, of value's dtype. `checked`: read `start` first; otherwise it must be right.
    Raises `ArgumentError` for other dtypes or shapes that do not match, and for starts that are out of order.
    """
    check_starts("segment_sum", start, value.shape[0], checked)
    out = empty_like(value, (start.shape[0] - 1, *value.shape[1:])) if out is None else out
    if value.ndim == 1:
        sum_segments(start, value, out, _width(value, out.shape[0]))
    else:
        sum_segment_rows(start, value, out)
    return out


SHORT = 64
"""Elements of a segment on average, up to which a CPU adds fewer up at once: most are beyond the end."""


def _width(value: Array, segments: int) -> int:
    """Elements that are added up at once: as many as a warp has threads, fewer of short segments on a CPU."""
    is_short = value.shape[0] <= SHORT * segments and not getattr(value, "is_cuda", False)
    return 16 if is_short else 32


Bag = Annotated[str, OneOf(("sum", "mean", "max"))]


@replayed
@checked
def embedding_bag(
    table: Float[Array, "V C"],
    index: Integer[Array, "E"],
    start: Integer[Array, "R+1"],
    kind: Bag = "sum",
    out: Result[Array, "R C", "table"] | None = None,
    checked: bool = True,
) -> Array:
    """The sum, mean or max of a table's rows for each bag, whose indices are `index[start[r] : start[r + 1]]`.

    `table`: V × C, of any strides; f64, f32, f16 or bf16, the latter two computed in f32. `index`: E integers from 0 up
    to V. `start`: R + 1 non-decreasing integers from 0 up to E. `kind`: sum, mean or max. An empty bag gives 0.
    `checked`: read `start` and `index` first. Returns `out`, or a new R × C array like table.
    Raises `ArgumentError` for other dtypes or kinds, shapes that do not match, and wrong indices.
    """
    check_bags("embedding_bag", table, index, start, checked)
    out = empty_like(table, (start.shape[0] - 1, table.shape[1])) if out is None else out
    bags_of_rows(start, index, table, out, kind)
    return out


def check_bags(function: str, table: Array, index: Array, start: Array, checked: bool) -> None:
    """Raise `ArgumentError` as `embedding_bag` does; `checked`: check elements too."""
    check_starts(function, start, index.shape[0], checked)
    if checked:
        check_indices(function, "index", index, table.shape[0])


@replayed
@checked
def segment_sum_backward(
    grad: Float[Array, "R"] | Float[Array, "R C"],
    start: Integer[Array, "R+1"],
    elements: Size,
    out: Result[Array, "elements", "grad"] | Result[Array, "elements C", "grad"] | None = None,
    checked: bool = True,
) -> Array:
    """The gradient of value, given the gradient of `segment_sum(value, start)`; `elements`: rows of value.

    `grad`: R, or R × C. Elements in no segment get 0. Returns `out`, or a new array like grad.
    Raises `ArgumentError` for other shapes, and for starts that are out of order.
    """
    check_starts("segment_sum_backward", start, elements, checked)
    out = empty_like(grad, (elements, *grad.shape[1:])) if out is None else out
    row = computed(partial(rows_of, elements=elements), start)
    if grad.ndim == 1:
        spread_over_segments(row, grad[:, None], out[:, None])
    else:
        spread_over_segments(row, grad, out)
    return out


@replayed
@checked
def embedding_bag_backward(
    grad: Float[Array, "R C"],
    table: Float[Array, "V C"],
    index: Integer[Array, "E"],
    start: Integer[Array, "R+1"],
    kind: Bag = "sum",
    transpose: Transpose | None = None,
    out: Result[Array, "V C", "table"] | None = None,
    checked: bool = True,
) -> Array:
    """The gradient of table, given the gradient of `embedding_bag(table, index, start, kind)`.

    `grad`: R × C. The first of equal largest elements of a bag, or the first NaN, gets the whole gradient, as in torch.
    `transpose`: `csr_transpose(start, index, V)`, computed if not given. Returns `out`, or a new
    array like table.
    Raises `ArgumentError` for other dtypes or kinds, shapes that do not match, and wrong indices.
    """
    check_bags("embedding_bag_backward", table, index, start, checked)
    transpose = csr_transpose(start, index, table.shape[0]) if transpose is None else transpose
    place = integers_like(grad, tuple(grad.shape) if kind == "max" else (1, grad.shape[1]))
    if kind == "max":
        find_largest_of_bags(start, index, table, place)
    out = empty_like(table, tuple(table.shape)) if out is None else out
    bags_gradient(start, transpose.start, transpose.row, transpose.order, place, grad, out, kind)
    return out


def _random_bags(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
    start, index = random_starts(sizes["R"], sizes["E"], random), random_indices(sizes["V"], sizes["E"], random)
    order = np.argsort(index, kind="stable")
    bag = np.repeat(np.arange(sizes["R"]), np.diff(start))
    lengths = np.maximum(1, np.diff(start))
    place = (start[:-1] + random_indices(1 << 30, sizes["R"], random) % lengths)[:, None]
    first = np.cumsum([0, *np.bincount(index, minlength=sizes["V"])])
    return {
        "start": start, "first": first, "bag": bag[order], "order": order,
        "place": place + np.zeros((1, sizes["C"]), int),
    }  # fmt: skip


_BAGS_GRADIENT = SampleInputs(
    {
        "S": lambda sizes, constants: sizes["R"] + 1,
        "T": lambda sizes, constants: sizes["V"] + 1,
        "P": lambda sizes, constants: sizes["R"],
    },
    arrays=_random_bags,
)
_CPU_BAGS = {"R": 4096, "E": 65536, "V": 8192, "C": 64}


CATALOGUE = (
    entry(
        "segment_sum",
        sum_segments,
        {"S": 65537, "R": 65536, "E": 1 << 22},
        {"R": 65536, "E": 1 << 20},
        "float32",
        samples=segments(),
    ),
    entry(
        "segment_sum",
        sum_segment_rows,
        {"S": 65537, "R": 65536, "E": 1 << 20, "C": 64},
        {"R": 4096, "E": 65536, "C": 64},
        "float32",
        samples=segments(),
    ),
    entry(
        "embedding_bag",
        bags_of_rows,
        {"S": 65537, "R": 65536, "E": 1 << 20, "V": 1 << 17, "C": 64},
        _CPU_BAGS,
        "float32",
        samples=segments(index="V"),
    ),
    entry(
        "segment_sum",
        spread_over_segments,
        {"E": 1 << 20, "R": 65536, "C": 64},
        {"R": 4096, "E": 65536, "C": 64},
        "float32",
        samples=coordinates(),
    ),
    entry(
        "embedding_bag",
        find_largest_of_bags,
        {"S": 65537, "R": 65536, "E": 1 << 20, "V": 1 << 17, "C": 64},
        _CPU_BAGS,
        "float32",
        samples=segments(index="V"),
    ),
    entry(
        "embedding_bag",
        bags_gradient,
        {"S": 65537, "R": 65536, "T": 131073, "E": 1 << 20, "P": 65536, "V": 1 << 17, "C": 64},
        _CPU_BAGS,
        "float32",
        samples=_BAGS_GRADIENT,
    ),
)
