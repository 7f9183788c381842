"""Reductions along a dimension, the largest elements, histograms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..bounds import EXACT, Bound
from ..case import Whole
from ..drawing import Draw, index_dtypes
from ..formats import FORMATS, Array
from ..numbers import Number
from ..subject import Between, Given, Results, Subject, like
from .rows import dtype_of


def _draw(draw: Draw, kind: str) -> dict[str, Any]:
    shape = draw.shape((0, 1, 2, 3, 4))
    choosing = kind in ("max", "min", "argmax", "argmin")
    dim = draw.of(None, *range(-len(shape), len(shape))) if shape else None
    if choosing and 0 in (shape if dim is None else (shape[dim],)):
        shape = tuple(max(1, each) for each in shape)
    whole = kind != "mean" and draw.chance(0.4)
    if whole:
        names = (*index_dtypes(), "bool") if kind == "sum" else index_dtypes()
        draw.array("x", shape, draw.random.choice(names), Whole())
    else:
        draw.array("x", shape, draw.floating())
    return {"dim": dim, "keepdim": draw.chance(0.3)}


def _along(x: Any, options: Mapping[str, Any], reduce: Any) -> Any:
    """Reduced, in the shape that the result must have."""
    shape, dim = x.shape, options["dim"]
    axis = tuple(range(len(shape))) if dim is None else (dim % len(shape),)
    kept = tuple(1 if at in axis else length for at, length in enumerate(shape))
    dropped = tuple(length for at, length in enumerate(shape) if at not in axis)
    result = reduce(x, axis)
    return result.reshape(kept if options["keepdim"] else dropped)


def _sum(given: Given, options: Mapping[str, Any]) -> Results:
    x = given["x"]
    if isinstance(x, Number):
        return [like(_along(x, options, lambda each, axis: each.sum(axis)), dtype_of(given))]

    def wrapped(each: Array, axis: Any) -> Array:
        signed = each.astype(np.uint64).astype(np.int64) if each.dtype.kind == "u" else each.astype(np.int64)
        return np.asarray(signed.sum(axis, dtype=np.int64))

    return [like(_along(x, options, wrapped), "int64")]


def _mean(given: Given, options: Mapping[str, Any]) -> Results:
    return [like(_along(given["x"], options, lambda each, axis: each.mean(axis)), dtype_of(given))]


def _extreme(given: Given, options: Mapping[str, Any], name: str) -> Results:
    x = given["x"]
    values = x.value if isinstance(x, Number) else x
    found = _along(values, options, lambda each, axis: np.asarray(getattr(each, name)(axis)))
    return [like(Number(found, x.format) if isinstance(x, Number) else found, dtype_of(given))]


def _place(given: Given, options: Mapping[str, Any], name: str) -> Results:
    x = given["x"]
    values = x.value if isinstance(x, Number) else x

    def find(each: Array, axis: Any) -> Array:
        flat = each.reshape(-1) if len(axis) == each.ndim else np.moveaxis(each, axis[0], -1)
        return np.asarray(getattr(flat, name)(-1))  # NumPy's: the first, and the first NaN before all

    return [like(_along(values, options, find), "int64")]


def _draw_topk(draw: Draw) -> dict[str, Any]:
    rows = draw.size(17)
    columns = draw.size(257)
    columns = draw.of(*(511, 1023, 4097)) if draw.chance(0.05) else columns
    draw.array("x", (rows, columns), draw.floating())
    return {"k": min(columns, draw.of(0, 1, 2, 7, 8, 9, 16, 33, columns, columns // 2))}


def topk(given: Given, options: Mapping[str, Any]) -> Results:
    x = given["x"].value
    key = np.where(np.isnan(x), -np.inf, -x)
    order = np.lexsort((key, ~np.isnan(x)), axis=-1)[:, : options["k"]]
    value = np.take_along_axis(x, order, -1)
    return [like(Number(value, given["x"].format), dtype_of(given)), like(order, "int64")]


def _draw_histogram(draw: Draw) -> dict[str, Any]:
    draw.array("x", draw.shape((1, 2, 3)), draw.floating())
    low, high = draw.of((0.0, 1.0), (-1.0, 1.0), (-3.0, 2.5), (-1e30, 1e30), (-3e38, 3e38), (-2.0, -1.0), (1e-3, 1e3))
    return {"bins": draw.of(1, 2, 7, 10, 64, 100), "low": low, "high": high}


def histogram(given: Given, options: Mapping[str, Any]) -> Results:
    """Positions err by a few units: what lies so near to an edge may be in either bin."""
    x, bins = given["x"], options["bins"]
    unit, wide = x.format.unit, x.format.wider
    rounded = (lambda value: value) if x.format is FORMATS["float64"] else np.float32
    low, high = (wide(rounded(options[name])) for name in ("low", "high"))
    values = x.value[(x.value >= low) & (x.value <= high)]
    place = (values - low) / (high - low) * bins
    err = 6 * unit * place + x.format.least
    first, last = (np.clip(np.floor(at), 0, bins - 1).astype(np.int64) for at in (place - err, place + err))
    sure = np.bincount(first[first == last], minlength=bins)
    most = sure.copy()
    for one, other in zip(first[first != last], last[first != last], strict=True):
        most[one] += 1
        most[other] += 1
    return [Between(sure, most)]


def _places(name: str) -> Subject:
    return Subject(name, lambda draw: _draw(draw, name), lambda given, options: _place(given, options, name))


def _extremes(name: str) -> Subject:
    return Subject(name, lambda draw: _draw(draw, name), lambda given, options: _extreme(given, options, name))


SUBJECTS = (
    Subject("sum", lambda draw: _draw(draw, "sum"), _sum),
    Subject("mean", lambda draw: _draw(draw, "mean"), _mean),
    _extremes("max"),
    _extremes("min"),
    _places("argmax"),
    _places("argmin"),
    Subject("topk", _draw_topk, topk),
    Subject("histogram", _draw_histogram, histogram),
)

BOUNDS: dict[str, Bound] = {
    "argmax": Bound("the first place of the largest element, or of the first NaN", EXACT),
    "argmin": Bound("the first place of the smallest element, or of the first NaN", EXACT),
    "histogram": Bound(
        "how many elements are in each bin", "exact, but for elements within 6u·place of an edge: in either bin"
    ),
    "max": Bound("the largest element, or NaN", EXACT),
    "mean": Bound("Σ x / n", "S(n)·u·Σ|x| / n + u·|result|"),
    "min": Bound("the smallest element, or NaN", EXACT),
    "sum": Bound("Σ x; of integers and bool in int64", "S(n)·u·Σ|x|; exact"),
    "topk": Bound("the k largest and their places", EXACT),
}
