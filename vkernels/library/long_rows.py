"""Rows longer than a core's cache: each segment is summarised while it is there, and the summaries are combined.

Memory is read twice instead of three times. Softmax: Milakov and Gimelshein, Online normalizer calculation for softmax
(2018). Layer normalisation: the pairwise moments of Chan, Golub and LeVeque (1979), segments of one length.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from jaxtyping import Float

import vkernels as vk
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan

from .arrays import Array, as_segments, empty_like
from .gpu_plans import segments_on_gpu

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


@summarise_exponentials.plan
@normalise_exponentials.plan
@summarise_moments.plan
@normalise_moments.plan
def plan_segments(sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan:
    """A segment a program, four registers at a time, the same one of all rows in turn, since they share its weights.

    Results larger than the cache pass it by.
    """
    if limits.warp > 1:
        return segments_on_gpu(sizes, dtypes, limits)
    width = 8 if "float64" in dtypes.values() else 4
    lanes = limits.register_bytes // width
    large = sizes["M"] * sizes["S"] * sizes["L"] * width >= limits.cache
    return Plan(
        tiles={"i": 1, "s": 1},
        chunks={"j": 4 * lanes, **({"t": lanes} if "out" in dtypes else {})},
        lanes="j",
        order=("s", "i"),
        streams=("out",) if large and "out" in dtypes else (),
    )


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
