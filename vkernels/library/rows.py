"""Softmax and layer normalisation along rows of any length, with the gradient of softmax.

Rows longer than a core's cache are split into segments. Each segment is summarised while it is in the cache, and the
summaries are combined, so memory is read twice instead of three times. Softmax: Milakov and Gimelshein, Online
normalizer calculation for softmax (2018). Layer normalisation: the pairwise moments of Chan, Golub and LeVeque (1979).
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from jaxtyping import Float

import vkernels.language as vk

from .arrays import Array, as_rows, as_segments, constant_like, empty_like, fill
from .declared import Result, checked, replayed
from .samples import (
    CPU_ROW_SEGMENTS,
    CPU_ROWS,
    LONG_ROWS,
    ROW_SEGMENTS,
    SHORT_ROWS,
    Arrays,
    ArraySampler,
    Constants,
    SampleInputs,
    Sizes,
    entry,
    numbers,
)

__all__ = ["layer_norm", "softmax"]


@vk.kernel
def softmax_rows(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    e = vk.exp(row - vk.max(row, axis=j))
    out[i, j] = e / vk.sum(e, axis=j)


@vk.kernel
def softmax_gradient(grad: Float[vk.Tensor, "M N"], result: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    change, row = grad[i, j], result[i, j]
    out[i, j] = row * (change - vk.sum(change * row, axis=j))


@vk.kernel
def layer_norm_rows(
    x: Float[vk.Tensor, "M N"],
    weight: Float[vk.Tensor, "N"],
    bias: Float[vk.Tensor, "N"],
    eps: vk.Scalar,
    out: Float[vk.Tensor, "M N"],
):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    centred = row - vk.mean(row, axis=j)
    variance = vk.mean(centred * centred, axis=j)
    out[i, j] = centred * vk.rsqrt(variance + eps) * weight[j] + bias[j]


LONG = 1 << 21
"""Length from which on rows are split: shorter ones stay in the last-level cache between passes."""


LONGEST_SEGMENT = 1 << 16


SHORTEST_SEGMENT = 1 << 12


@vk.kernel
def summarise_exponentials(x: Float[vk.Tensor, "M S L"], peak: Float[vk.Tensor, "M S"], total: Float[vk.Tensor, "M S"]):
    i = vk.tile("M")
    s = vk.tile("S")
    j = vk.whole("L")
    row = x[i, s, j]
    largest = vk.max(row, axis=j)
    base = vk.where(largest == -math.inf, 0.0, largest)  # a segment of nothing but -inf adds nothing
    peak[i, s] = largest
    total[i, s] = vk.sum(vk.exp(row - base), axis=j)


@vk.kernel
def normalise_exponentials(
    x: Float[vk.Tensor, "M S L"],
    peak: Float[vk.Tensor, "M S"],
    total: Float[vk.Tensor, "M S"],
    out: Float[vk.Tensor, "M S L"],
):
    i = vk.tile("M")
    s = vk.tile("S")
    j = vk.whole("L")
    t = vk.whole("S")
    largest = vk.max(peak[i, t], axis=t)
    sum_ = vk.sum(total[i, t] * vk.exp(peak[i, t] - largest), axis=t)
    out[i, s, j] = vk.exp(x[i, s, j] - largest) / sum_


@vk.kernel
def summarise_moments(x: Float[vk.Tensor, "M S L"], mean: Float[vk.Tensor, "M S"], squares: Float[vk.Tensor, "M S"]):
    i = vk.tile("M")
    s = vk.tile("S")
    j = vk.whole("L")
    row = x[i, s, j]
    middle = vk.mean(row, axis=j)
    centred = row - middle
    mean[i, s] = middle
    squares[i, s] = vk.sum(centred * centred, axis=j)


@vk.kernel
def normalise_moments(
    x: Float[vk.Tensor, "M S L"],
    mean: Float[vk.Tensor, "M S"],
    squares: Float[vk.Tensor, "M S"],
    weight: Float[vk.Tensor, "S L"],
    bias: Float[vk.Tensor, "S L"],
    eps: vk.Scalar,
    out: Float[vk.Tensor, "M S L"],
):
    i = vk.tile("M")
    s = vk.tile("S")
    j = vk.whole("L")
    t = vk.whole("S")
    middle = vk.mean(mean[i, t], axis=t)
    apart = mean[i, t] - middle
    variance = vk.mean(squares[i, t] / vk.size("L") + apart * apart, axis=t)
    out[i, s, j] = (x[i, s, j] - middle) * vk.rsqrt(variance + eps) * weight[s, j] + bias[s, j]


@replayed
@checked
def softmax(x: Float[Array, "*B N"], out: Result[Array, "*B N", "x"] | None = None) -> Array:
    """exp(x) / sum(exp(x)) along the last dimension, computed with the row's maximum subtracted.

    `x`: any shape and strides; f64, f32, f16 or bf16, the latter two computed in f32. Returns `out`, or a new
    array of x's shape and dtype. NaN anywhere in a row gives a row of NaN, as in torch.
    Raises `ArgumentError` for other dtypes and for an `out` of another shape or dtype.
    """
    rows = as_rows(x)
    segment = segment_of(rows.shape[1])
    run = softmax_rows if segment is None else partial(softmax_long, segment)
    return fill(out, x, lambda results: run(rows, results))


@replayed
@checked
def softmax_backward(
    grad: Float[Array, "*B N"], result: Float[Array, "*B N"], out: Result[Array, "*B N", "result"] | None = None
) -> Array:
    """The gradient of x, given the gradient of `softmax(x)` and that result: result * (grad - sum(grad * result)).

    All of one shape and dtype, rows of any length. Returns `out`, or a new array like them; NaN and infinities spread
    as in torch. Raises `ArgumentError` where they do not go together.
    """
    return fill(out, result, lambda results: softmax_gradient(as_rows(grad), as_rows(result), results))


@replayed
@checked
def layer_norm(
    x: Float[Array, "*B N"],
    weight: Float[Array, "N"] | None = None,
    bias: Float[Array, "N"] | None = None,
    eps: float = 1e-5,
    out: Result[Array, "*B N", "x"] | None = None,
) -> Array:
    """(x - mean) / sqrt(variance + eps) * weight + bias along the last dimension (Ba, Kiros, Hinton 2016).

    `x`: any shape and strides; f64, f32, f16 or bf16, the latter two computed in f32. `weight` and `bias`: one element
    a column, or none. The variance is that of the centred row, divided by N. Returns `out`, or a new array like x.
    Raises `ArgumentError` for other dtypes or shapes that do not match.
    """
    rows, columns = as_rows(x), (x.shape[-1],)
    weight = constant_like(x, 1.0, columns) if weight is None else weight
    bias = constant_like(x, 0.0, columns) if bias is None else bias
    segment = segment_of(rows.shape[1])
    run = layer_norm_rows if segment is None else partial(layer_norm_long, segment)
    return fill(out, x, lambda results: run(rows, weight, bias, eps, results))


def segment_of(length: int) -> int | None:
    """The length of a row's segments; None for short rows and if no suitable length divides the row."""
    segment = math.gcd(length, LONGEST_SEGMENT)
    return segment if length >= LONG and segment >= SHORTEST_SEGMENT else None


def softmax_long(segment: int, x: Array, out: Array) -> None:
    """Softmax of rows whose length is a multiple of `segment`."""
    x, out = as_segments(x, segment), as_segments(out, segment)
    peak, total = _summaries(x), _summaries(x)
    summarise_exponentials(x, peak, total)
    normalise_exponentials(x, peak, total, out)


def layer_norm_long(segment: int, x: Array, weight: Array, bias: Array, eps: float, out: Array) -> None:
    """Layer normalisation of rows whose length is a multiple of `segment`."""
    x, out = as_segments(x, segment), as_segments(out, segment)
    mean, squares = _summaries(x), _summaries(x)
    summarise_moments(x, mean, squares)
    normalise_moments(x, mean, squares, as_segments(weight, segment), as_segments(bias, segment), eps, out)


def _summaries(x: Array) -> Array:
    return empty_like(x, tuple(x.shape[:-1]), computed=True)


def _positive(*names: str) -> ArraySampler:
    def arrays(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
        return {name: 1 + np.abs(random.standard_normal((sizes["M"], sizes["S"]))) for name in names}

    return arrays


CATALOGUE = (
    entry("softmax", softmax_rows, SHORT_ROWS, CPU_ROWS),
    entry("softmax", softmax_rows, LONG_ROWS, CPU_ROWS),
    entry("softmax", summarise_exponentials, ROW_SEGMENTS, CPU_ROW_SEGMENTS, computed=("peak", "total")),
    entry(
        "softmax",
        normalise_exponentials,
        ROW_SEGMENTS,
        CPU_ROW_SEGMENTS,
        computed=("peak", "total"),
        samples=SampleInputs(arrays=_positive("total")),
    ),
    entry("softmax", softmax_gradient, SHORT_ROWS, CPU_ROWS),
    entry("layer_norm", layer_norm_rows, SHORT_ROWS, CPU_ROWS, samples=SampleInputs(numbers=numbers(eps=1e-5))),
    entry("layer_norm", layer_norm_rows, LONG_ROWS, CPU_ROWS, samples=SampleInputs(numbers=numbers(eps=1e-5))),
    entry("layer_norm", summarise_moments, ROW_SEGMENTS, CPU_ROW_SEGMENTS, computed=("mean", "squares")),
    entry(
        "layer_norm",
        normalise_moments,
        ROW_SEGMENTS,
        CPU_ROW_SEGMENTS,
        computed=("mean", "squares"),
        samples=SampleInputs(numbers=numbers(eps=1e-5), arrays=_positive("squares")),
    ),
)
