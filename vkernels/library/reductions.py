"""Reductions along a dimension, and histograms."""

from __future__ import annotations

import math
import sys

import numpy as np
from jaxtyping import Bool, Float, Int, Num

import vkernels.language as vk
from vkernels.ir.errors import ArgumentError

from .arrays import Array, empty_like, integers_like
from .declared import AtLeastOne, checked, replayed
from .samples import SampleInputs, ceil_div, entry
from .selection import topk as topk

__all__ = ["argmax", "argmin", "histogram", "max", "mean", "min", "sum"]


@vk.function
def reduced(x, axis, kind: vk.Constant):
    if kind == "sum":
        return vk.sum(x, axis=axis)
    if kind == "mean":
        return vk.mean(x, axis=axis)
    if kind == "max":
        return vk.max(x, axis=axis)
    return vk.min(x, axis=axis)


@vk.kernel
def reduce_middle(x: Num[vk.Tensor, "A N C"], out: Num[vk.Tensor, "A C"], kind: vk.Constant = "sum"):
    a = vk.tile("A")
    c = vk.tile("C")
    j = vk.whole("N")
    out[a, c] = reduced(x[a, j, c], j, kind)


@vk.kernel
def find_middle(x: Num[vk.Tensor, "A N C"], out: Int[vk.Tensor, "A C"], smallest: vk.Constant = False):
    a = vk.tile("A")
    c = vk.tile("C")
    j = vk.whole("N")
    out[a, c] = vk.argmin(x[a, j, c], axis=j) if smallest else vk.argmax(x[a, j, c], axis=j)


@vk.kernel
def count_in_parts(
    x: Float[vk.Tensor, "E"],
    length: int,
    low: vk.Scalar,
    high: vk.Scalar,
    count: Int[vk.Tensor, "P B"],
    half: float = 1.0,
):
    i = vk.tile("P")
    # `half` of a width that overflows does not
    width = high * half - low * half
    for e in vk.range(i * length, vk.minimum((i + 1) * length, vk.size("E"))):
        number = x[e]
        inside = (number >= low) & (number <= high)
        part = vk.where(inside, (number * half - low * half) / width, 0.0) * vk.size("B")
        bin_ = vk.minimum(part.to(vk.int64), vk.size("B") - 1)
        vk.store(count[i, bin_], vk.load(count[i, bin_], where=inside) + 1, where=inside)


@replayed
@checked
def sum(x: Num[Array, "*S"] | Bool[Array, "*S"], dim: int | None = None, keepdim: bool = False) -> Array:
    """The sum along a dimension, or of all elements. Of integers and bool in int64; without elements 0.

    `x`: any shape and strides; f64, f32, f16 or bf16, the latter two added in f32, integers or bool. Returns a new
    array, in x's dtype or int64, without the dimension `dim`, or, `keepdim`, with one element there.
    Raises `ArgumentError` for other dtypes and for a dimension that x does not have.
    """
    return _reduce("sum", x, dim, keepdim)


@replayed
@checked
def mean(x: Float[Array, "*S"], dim: int | None = None, keepdim: bool = False) -> Array:
    """The mean along a dimension, or of all elements; NaN without elements. Only floats; otherwise as `sum`."""
    return _reduce("mean", x, dim, keepdim)


@replayed
@checked
def max(x: Num[Array, "*S"], dim: int | None = None, keepdim: bool = False) -> Array:
    """The largest element along a dimension, or of all, which must not be empty; NaN if any is NaN. See `sum`."""
    return _reduce("max", x, dim, keepdim)


@replayed
@checked
def min(x: Num[Array, "*S"], dim: int | None = None, keepdim: bool = False) -> Array:
    """The smallest element along a dimension, or of all, which must not be empty; NaN if any is NaN. See `sum`."""
    return _reduce("min", x, dim, keepdim)


@replayed
@checked
def argmax(x: Num[Array, "*S"], dim: int | None = None, keepdim: bool = False) -> Array:
    """The first place, int64, of the largest element along a dimension, which must not be empty, or of the first NaN.

    Of all elements, laid out row after row, where no dimension is given. See `sum`.
    """
    return _find("argmax", x, dim, keepdim)


@replayed
@checked
def argmin(x: Num[Array, "*S"], dim: int | None = None, keepdim: bool = False) -> Array:
    """The first position of the smallest element; otherwise as `argmax`."""
    return _find("argmin", x, dim, keepdim)


PARTS = 256
"""Parts that are counted separately, so that programs write to different memory."""
_LARGEST = {dtype: float(np.finfo(dtype).max) for dtype in (np.float32, np.float64)}
MOST_COUNTS = 1 << 22
"""Limit for the counts of all parts together."""


@checked
def histogram(x: Float[Array, "*S"], bins: AtLeastOne, low: float, high: float) -> Array:
    """Counts of elements in bins of equal width, int64; the last bin includes `high`.

    `x`: any shape and strides; f64, f32, f16 or bf16. Elements outside and NaN do not count, as in `torch.histc`.
    `bins`: 1 or more. `low` is below `high`, both finite and distinct in the dtype of the computation.
    Raises `ArgumentError` for other dtypes, bins or bounds.
    """
    dtype, largest = ("float64", _LARGEST[np.float64]) if x.dtype.itemsize == 8 else ("float32", _LARGEST[np.float32])
    if not (-largest <= low < high <= largest) or (dtype == "float32" and np.float32(low) == np.float32(high)):
        raise ArgumentError(
            f"histogram: low is {low} and high is {high}, expected low below high, both finite and apart in {dtype}"
        )
    half = 1.0 if high - low <= largest else 0.5
    flat = x.reshape(-1)
    parts = PARTS if PARTS * bins <= MOST_COUNTS else -(-MOST_COUNTS // bins)
    count = integers_like(x, (parts, bins))
    count[...] = 0
    count_in_parts(flat, -(-flat.shape[0] // parts), low, high, count, half)
    return _reduce("sum", count, 0, False)


def _reduce(kind: str, x: Array, dim: int | None, keepdim: bool) -> Array:
    if str(x.dtype).endswith("bool"):
        x = x.view(np.int8) if isinstance(x, np.ndarray) else x.view(sys.modules["torch"].int8)
    cut, shape = _around(kind, x, dim, keepdim)
    counts = kind == "sum" and not _is_float(x)
    outer = (cut.shape[0], cut.shape[2])
    out = integers_like(x, outer) if counts else empty_like(x, outer)
    reduce_middle(cut, out, kind)
    return out.reshape(shape)


def _find(kind: str, x: Array, dim: int | None, keepdim: bool) -> Array:
    cut, shape = _around(kind, x, dim, keepdim)
    out = integers_like(x, (cut.shape[0], cut.shape[2]))
    find_middle(cut, out, kind == "argmin")
    return out.reshape(shape)


def _around(kind: str, x: Array, dim: int | None, keepdim: bool) -> tuple[Array, tuple[int, ...]]:
    """x with the dimensions before and after `dim` merged, and the shape of results."""
    rank = x.ndim
    if dim is not None and not -rank <= dim < rank:
        raise ArgumentError(f"{kind}: dim is {dim}, but x has {rank} dimensions")
    at = 0 if dim is None else dim % rank
    before, along, after = x.shape[:at], x.shape[at : at + 1], x.shape[at + 1 :]
    if dim is None:
        before, along, after = (), (math.prod(x.shape),), ()
    if kind in ("max", "min", "argmax", "argmin") and along == (0,) and 0 not in (*before, *after):
        raise ArgumentError(f"{kind}: x has shape {tuple(x.shape)}, expected elements to choose from")
    kept = (1,) * rank if dim is None else (*before, 1, *after)
    return x.reshape((math.prod(before), *along, math.prod(after))), kept if keepdim else (*before, *after)


def _is_float(x: Array) -> bool:
    return x.dtype.kind == "f" if isinstance(x, np.ndarray) else bool(x.dtype.is_floating_point)


_PARTS = SampleInputs(
    numbers=lambda sizes: {"length": ceil_div(sizes["E"], sizes["P"]), "low": -4.0, "high": 4.0, "half": 1.0},
    arrays=lambda sizes, constants, random: {"count": np.zeros((sizes["P"], sizes["B"]), np.int64)},
)


CATALOGUE = (
    entry("sum", reduce_middle, {"A": 64, "N": 4096, "C": 64}, {"A": 16, "N": 1024, "C": 64}),
    entry("argmax", find_middle, {"A": 64, "N": 4096, "C": 64}, {"A": 16, "N": 1024, "C": 64}),
    entry(
        "histogram",
        count_in_parts,
        {"E": 1 << 24, "P": 256, "B": 256},
        {"E": 1 << 20, "P": 256, "B": 64},
        "float32",
        samples=_PARTS,
    ),
)
