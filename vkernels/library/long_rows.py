"""Rows longer than a core's cache: each segment is summarised while it is there, and the summaries are combined.

Memory is read twice instead of three times. Softmax: Milakov and Gimelshein, Online normalizer calculation for softmax
(2018). Layer normalisation: the pairwise moments of Chan, Golub and LeVeque (1979), segments of one length.
"""

from __future__ import annotations

import math

from jaxtyping import Float

import vkernels as vk

from .arrays import Array, as_segments, empty_like

LONG = 1 << 21
"""Elements of a row that is worth cutting: shorter ones stay in a last-level cache from one reading to the next."""

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


def segment_of(length: int) -> int | None:
    """Elements of the segments that a row is cut into; None where it is short, or no such length divides it."""
    segment = math.gcd(length, LONGEST_SEGMENT)
    return segment if length >= LONG and segment >= SHORTEST_SEGMENT else None


def softmax_long(x: Array, out: Array, segment: int) -> None:
    """Softmax of the rows of x, which `segment` divides."""
    x, out = as_segments(x, segment), as_segments(out, segment)
    peak, total = _summaries(x), _summaries(x)
    summarise_exponentials(x, peak, total)
    normalise_exponentials(x, peak, total, out)


def layer_norm_long(x: Array, weight: Array, bias: Array, eps: float, out: Array, segment: int) -> None:
    """Layer normalisation of the rows of x, which `segment` divides."""
    x, out = as_segments(x, segment), as_segments(out, segment)
    mean, squares = _summaries(x), _summaries(x)
    summarise_moments(x, mean, squares)
    normalise_moments(x, mean, squares, as_segments(weight, segment), as_segments(bias, segment), eps, out)


def _summaries(x: Array) -> Array:
    """Room for one number a segment, in the dtype that x is computed in."""
    return empty_like(x, tuple(x.shape[:-1]), computed=True)
