"""Sums over segments, bags of embeddings, products with sparse matrices; forward and backward.

Values that are no finite numbers are left out of gradients: a product of a structure with what it does not hold is
computed nowhere, so that its reference, a dense one, would have NaN where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from ..bounds import EXACT, GRADIENTS, PRODUCT, Bound
from ..drawing import Draw
from ..formats import Array
from ..numbers import Number, dot
from ..subject import FINITE, Given, Results, Subject, like
from .activations import activated, draw_activation, slope
from .rows import dtype_of


def _member(start: Array, elements: int, wider: Any) -> Array:
    """R × E: 1 where an element is in a row."""
    bounds = start.astype(np.int64)
    place = np.arange(elements)
    return ((place >= bounds[:-1, None]) & (place < bounds[1:, None])).astype(wider)


def _exact(array: Array, like_: Number) -> Number:
    return Number(array, like_.format)


def _draw_segments(draw: Draw, backward: bool) -> dict[str, Any]:
    rows, elements = draw.size(33), draw.long(4)
    more, dtype = draw.of((), (draw.size(17),)), draw.floating()
    draw.array("grad", (rows, *more), dtype) if backward else draw.array("value", (elements, *more), dtype)
    draw.starts("start", rows + 1, elements)
    draw.out((elements if backward else rows, *more), dtype)
    return {"elements": elements} if backward else {}


def _by_segments(value: Number, start: Array) -> Number:
    """Sums of each segment's own terms, so that what is elsewhere in `value` does not matter."""
    parts = []
    for first, last in pairwise(start.astype(int)):
        parts.append(value[first:last].sum(0))
    shape = (len(parts), *value.shape[1:])
    arrays = [[getattr(part, name) for part in parts] for name in ("value", "error", "loose")]
    stacked = [np.array(array).reshape(shape) for array in arrays]
    return Number(stacked[0], value.format, stacked[1], stacked[2])


def segment_sum(given: Given, options: Mapping[str, Any]) -> Results:
    return [like(_by_segments(given["value"], given["start"]), dtype_of(given, "value"))]


def segment_sum_backward(given: Given, options: Mapping[str, Any]) -> Results:
    grad, start = given["grad"], given["start"]
    member = _member(start, options["elements"], bool)
    row, inside = member.argmax(0) if len(member) else np.zeros(options["elements"], int), member.any(0)
    found = np.zeros((options["elements"], *grad.shape[1:]), grad.value.dtype)
    found[inside] = grad.value[row[inside]]
    return [like(Number(found, grad.format), dtype_of(given, "grad"))]


def _draw_bags(draw: Draw, backward: bool) -> dict[str, Any]:
    rows, elements, table, columns = draw.size(17), draw.size(129), draw.size(65), draw.size(33)
    dtype = draw.floating()
    if backward:
        draw.array("grad", (rows, columns), dtype)
    draw.array("table", (table, columns), dtype)
    draw.index("index", (elements,), table)
    draw.starts("start", rows + 1, elements)
    draw.out((table, columns) if backward else (rows, columns), dtype)
    return {"kind": draw.of("sum", "mean", "max")}


def embedding_bag(given: Given, options: Mapping[str, Any]) -> Results:
    table, start, dtype = given["table"], given["start"].astype(int), dtype_of(given, "table")
    rows = table[given["index"].astype(int)]
    lengths = np.diff(start)[:, None]
    if options["kind"] == "max":
        parts = [rows.value[first:last] for first, last in pairwise(start)]
        found = [part.max(0) if len(part) else np.zeros(table.shape[1]) for part in parts]
        return [like(_exact(np.array(found).reshape(len(parts), table.shape[1]), table), dtype)]
    total = _by_segments(rows, start)
    return [like(total / _exact(np.maximum(lengths, 1), table) if options["kind"] == "mean" else total, dtype)]


def embedding_bag_backward(given: Given, options: Mapping[str, Any]) -> Results:
    grad, table, start, dtype = given["grad"], given["table"], given["start"].astype(int), dtype_of(given, "table")
    index, wider = given["index"].astype(int), table.format.wider
    member = _member(start, len(index), wider)  # R × E
    taken = np.zeros((len(index), table.shape[0]), wider)
    taken[np.arange(len(index)), index] = 1
    if options["kind"] == "mean":
        lengths = np.maximum(np.diff(start), 1)
        share = grad / _exact(lengths[:, None], grad)
    elif options["kind"] == "max":
        return [like(_of_largest(grad, table, index, start), dtype)]
    else:
        share = grad
    return [like(dot("rv,rc->vc", _exact(member @ taken, grad), share, added=len(index)), dtype)]


def _of_largest(grad: Number, table: Number, index: Array, start: Array) -> Number:
    columns = table.shape[1]
    hits = np.zeros((len(start) - 1, table.shape[0], columns), table.format.wider)
    for row, (first, last) in enumerate(pairwise(start)):
        if last > first:
            best = table.value[index[first:last]].argmax(0)
            hits[row, index[first + best], np.arange(columns)] = 1
    return dot("rvc,rc->vc", _exact(hits, grad), grad)


def _draw_product(draw: Draw, form: str, backward: bool) -> dict[str, Any]:
    rows, inner, columns, dtype = draw.size(33), draw.size(33), draw.size(33), draw.floating()
    down, across = (draw.of(1, 2, 4, 5), draw.of(1, 2, 4, 8)) if form == "block" else (1, 1)
    elements = draw.size(129)
    if backward:
        draw.array("grad", (rows * down, columns), dtype)
    if form == "ell":
        width = draw.size(17)
        draw.index("column", (rows, width), inner)
        draw.array("value", (rows, width), dtype)
    else:
        draw.starts("start", rows + 1, elements)
        draw.index("column", (elements,), inner)
        draw.array("block", (elements, down, across), dtype) if form == "block" else draw.array(
            "value", (elements,), dtype
        )
    draw.array("dense", (inner * across, columns), dtype)
    if draw.chance(0.5):
        draw.array("bias", (rows * down,), dtype)
    if not backward:
        draw.out((rows * down, columns), dtype)
    return {"activation": draw_activation(draw)}


def _structure(given: Given) -> tuple[Array, Array, Number]:
    """Of each element its row (-1 of none) and column, and its value as a block: E × P × Q."""
    column = given["column"].astype(int)
    if given["start"] is None:
        value = given["value"].reshape(-1, 1, 1)
        return np.repeat(np.arange(column.shape[0]), column.shape[1]), column.reshape(-1), value
    value = given["block"] if given["block"] is not None else given["value"].reshape(-1, 1, 1)
    member = _member(given["start"], len(column), bool)
    row = member.argmax(0) if len(member) else np.zeros(len(column), int)
    return np.where(member.any(0), row, -1), column, value


def _rows_of(given: Given) -> int:
    return len(given["start"]) - 1 if given["start"] is not None else given["value"].shape[0]


def _products(given: Given) -> Number:
    """R × P × C, with the bias."""
    row, column, block = _structure(given)
    dense, bias = given["dense"], given["bias"]
    down, across = block.shape[1:]
    cut = dense.reshape(dense.shape[0] // across, across, dense.shape[1])
    total = scattered_dot(row, _rows_of(given), block, cut[column], "epq,eqc->epc")
    return total if bias is None else total + bias.reshape(total.shape[0], down, 1)


def scattered_dot(place: Array, places: int, a: Number, b: Number, equation: str) -> Number:
    """Sums of products of the elements of each place, one `dot` a place; without elements 0."""
    shape = np.einsum(equation, a.value[:0], b.value[:0]).shape[1:]
    merged = equation.split("->")[0] + "->" + equation.split("->")[1].replace("e", "")
    value, error = np.zeros((places, *shape), a.format.wider), np.zeros((places, *shape), a.format.wider)
    loose = np.zeros((places, *shape), bool)
    order = np.argsort(place, kind="stable")
    bounds = np.searchsorted(place[order], np.arange(places + 1))
    for each, (first, last) in enumerate(pairwise(bounds)):
        if last > first:
            chosen = order[first:last]
            found = dot(merged, a[chosen], b[chosen])
            value[each], error[each], loose[each] = found.value, found.error, found.loose
    return Number(value, a.format, error, loose)


def _dtype(given: Given) -> str:
    return dtype_of(given, "dense")


def product(given: Given, options: Mapping[str, Any]) -> Results:
    total = activated(_products(given), options["activation"])
    return [like(total.reshape(math.prod(total.shape[:2]), total.shape[2]), _dtype(given))]


def product_backward(given: Given, options: Mapping[str, Any]) -> Results:
    row, column, block = _structure(given)
    dense, bias, dtype = given["dense"], given["bias"], _dtype(given)
    down, across = block.shape[1:]
    rows = _rows_of(given)
    cut = dense.reshape(dense.shape[0] // across, across, dense.shape[1])
    change = given["grad"].reshape(rows, down, dense.shape[1])
    if options["activation"] != "none":
        change = (change * slope(_products(given), options["activation"])).rounded(dtype)
    inside = row >= 0
    every = dot("epc,eqc->epq", change[np.maximum(row, 0)], cut[column]) if rows else block * 0.0
    of_block = Number(
        np.where(inside[:, None, None], every.value, 0), dense.format, every.error, every.loose & inside[:, None, None]
    )
    kept = np.flatnonzero(inside)
    of_dense = scattered_dot(column[kept], cut.shape[0], block[kept], change[row[kept]], "epq,epc->eqc")
    shape = given["block"].shape if given["block"] is not None else given["value"].shape
    of_bias = None if bias is None else like(change.sum(2).reshape(-1), dtype)
    return [like(of_block.reshape(shape), dtype), like(of_dense.reshape(dense.shape), dtype), of_bias]


def _draw_sampled(draw: Draw, backward: bool) -> dict[str, Any]:
    elements, rows, columns, dtype = draw.size(65), draw.size(33), draw.size(33), draw.floating()
    inner = draw.long(64)
    if backward:
        draw.array("grad", (elements,), dtype)
    draw.index("row", (elements,), rows)
    draw.index("column", (elements,), columns)
    draw.array("value", (elements,), dtype)
    draw.array("a", (rows, inner), dtype)
    draw.array("b", (columns, inner), dtype)
    if not backward:
        draw.out((elements,), dtype)
    return {}


def _pairs(given: Given) -> Number:
    row, column = (given[name].astype(int) for name in ("row", "column"))
    return dot("ek,ek->e", given["a"][row], given["b"][column])


def sampled(given: Given, options: Mapping[str, Any]) -> Results:
    return [like(given["value"] * _pairs(given), dtype_of(given, "value"))]


def sampled_backward(given: Given, options: Mapping[str, Any]) -> Results:
    grad, value, a, b, dtype = (*(given[name] for name in ("grad", "value", "a", "b")), dtype_of(given, "value"))
    row, column = (given[name].astype(int) for name in ("row", "column"))
    scaled = grad * value
    of_a = scattered_dot(row, a.shape[0], scaled, b[column], "e,ek->ek")
    of_b = scattered_dot(column, b.shape[0], scaled, a[row], "e,ek->ek")
    return [like(grad * _pairs(given), dtype), like(of_a, dtype), like(of_b, dtype)]


def _product_subjects(form: str) -> tuple[Subject, Subject]:
    name = f"{form}_matmul"
    return (
        Subject(name, lambda draw: _draw_product(draw, form, False), product),
        Subject(f"{name}_backward", lambda draw: _draw_product(draw, form, True), product_backward, without=FINITE),
    )


SUBJECTS = (
    Subject("segment_sum", lambda draw: _draw_segments(draw, False), segment_sum),
    Subject("segment_sum_backward", lambda draw: _draw_segments(draw, True), segment_sum_backward),
    Subject("embedding_bag", lambda draw: _draw_bags(draw, False), embedding_bag),
    Subject("embedding_bag_backward", lambda draw: _draw_bags(draw, True), embedding_bag_backward, without=FINITE),
    *_product_subjects("csr"),
    *_product_subjects("ell"),
    *_product_subjects("block"),
    Subject("sampled_matmul", lambda draw: _draw_sampled(draw, False), sampled),
    Subject("sampled_matmul_backward", lambda draw: _draw_sampled(draw, True), sampled_backward),
)

BOUNDS: dict[str, Bound] = {
    "block_matmul": Bound("activation(Σ block·dense + bias)", PRODUCT),
    "block_matmul_backward": Bound("Σ grad·dense; Σ block·grad; Σ grad", GRADIENTS),
    "csr_matmul": Bound("activation(Σ value·dense + bias)", PRODUCT),
    "csr_matmul_backward": Bound("Σ grad·dense; Σ value·grad; Σ grad", GRADIENTS),
    "ell_matmul": Bound("activation(Σ value·dense + bias)", PRODUCT),
    "ell_matmul_backward": Bound("Σ grad·dense; Σ value·grad; Σ grad", GRADIENTS),
    "embedding_bag": Bound("Σ, mean or max of rows", "S(n)·u·Σ|rows|; of the mean u more; max exact"),
    "embedding_bag_backward": Bound("Σ of grad, of grad / n, or of grad where the row is largest", "S(n)·u·Σ|terms|"),
    "sampled_matmul": Bound("value·Σ a·b", "(S(n) + 1)·u·|value|·Σ|a·b|"),
    "sampled_matmul_backward": Bound("grad·Σ a·b; Σ grad·value·b; Σ grad·value·a", GRADIENTS),
    "segment_sum": Bound("Σ x of each segment", "S(n)·u·Σ|x| of the segment's n elements"),
    "segment_sum_backward": Bound("the gradient of each element's segment", EXACT),
}
