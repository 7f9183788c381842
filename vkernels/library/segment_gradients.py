"""Gradients of sums over segments and of bags of embeddings, without atomics."""

from __future__ import annotations

from jaxtyping import Float, Int, Integer

import vkernels as vk

from .annotations import Result, Size
from .arrays import Array, empty_like, integers_like
from .declared import checked
from .indices import check_starts
from .sparse_products import Bag, check_bags
from .transposes import Transpose, csr_transpose, rows_of


@vk.kernel
def spread_over_segments(row: Integer[vk.Tensor, "E"], grad: Float[vk.Tensor, "R C"], out: Float[vk.Tensor, "E C"]):
    e = vk.tile("E")
    c = vk.tile("C")
    at = row[e].to(vk.int64)  # the number of rows need not fit into its dtype
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


@checked
def segment_sum_backward(
    grad: Float[Array, "R"] | Float[Array, "R C"],
    start: Integer[Array, "R+1"],
    elements: Size,
    out: Result[Array, "elements", "grad"] | Result[Array, "elements C", "grad"] | None = None,
    checked: bool = True,
) -> Array:
    """The gradient of value, of the gradient of `segment_sum(value, start)` of a value of so many elements or rows.

    `grad`: R, or R × C. What is in no segment gets 0. Returns `out`, or a new array like grad.
    Raises `ArgumentError` for other shapes, and for starts that are out of order.
    """
    check_starts("segment_sum_backward", start, elements, checked)
    out = empty_like(grad, (elements, *grad.shape[1:])) if out is None else out
    row = rows_of(start, elements)
    if grad.ndim == 1:
        spread_over_segments(row, grad[:, None], out[:, None])
    else:
        spread_over_segments(row, grad, out)
    return out


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
    """The gradient of table, of the gradient of `embedding_bag(table, index, start, kind)`.

    `grad`: R × C. Of equal largest elements of a bag the first gets all, as in torch, and so does the first NaN.
    `transpose`: what `csr_transpose(start, index, V)` gives, built anew where it is not given. Returns `out`, or a new
    array like table.
    Raises `ArgumentError` for other dtypes or kinds, shapes that do not go together, and wrong indices.
    """
    check_bags("embedding_bag_backward", table, index, start, checked)
    transpose = csr_transpose(start, index, table.shape[0]) if transpose is None else transpose
    place = integers_like(grad, tuple(grad.shape) if kind == "max" else (0, grad.shape[1]))
    if kind == "max":
        find_largest_of_bags(start, index, table, place)
    out = empty_like(table, tuple(table.shape)) if out is None else out
    bags_gradient(start, transpose.start, transpose.row, transpose.order, place, grad, out, kind)
    return out
