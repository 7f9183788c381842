"""Cumulative sums along rows; a few long rows are cut into segments, whose sums come first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from jaxtyping import Float

import vkernels as vk
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan

from .arrays import Array, as_rows, as_segments, empty_like, give_back
from .gpu_plans import rows_on_gpu, segments_on_gpu
from .long_rows import segment_of


@vk.kernel
def cumulative_sum_rows(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = vk.cumulative_sum(x[i, j], axis=j)


@vk.kernel
def sum_of_each_segment(x: Float[vk.Tensor, "M S L"], total: Float[vk.Tensor, "M S"]):
    i = vk.tile("M")
    s = vk.tile("S")
    j = vk.whole("L")
    total[i, s] = vk.sum(x[i, s, j], axis=j)


@vk.kernel
def cumulative_sum_segments(
    x: Float[vk.Tensor, "M S L"], total: Float[vk.Tensor, "M S"], out: Float[vk.Tensor, "M S L"]
):
    i = vk.tile("M")
    s = vk.tile("S")
    j = vk.whole("L")
    t = vk.whole("S")
    before = vk.sum(vk.where(t < s, total[i, t], 0.0), axis=t)
    out[i, s, j] = vk.cumulative_sum(x[i, s, j], axis=j) + before


@cumulative_sum_rows.plan
def plan_rows(sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan:
    """Several short rows a program, which holds them; of longer ones one at a time, a register after another."""
    rows, length = sizes["M"], max(1, sizes["N"])
    width = 8 if "float64" in dtypes.values() else 4
    if limits.warp > 1:
        return replace(rows_on_gpu(sizes, limits, width), splits={})
    lanes = limits.register_bytes // width
    in_row = -(-length // lanes)
    streams = ("out",) if rows * length * width >= limits.cache and in_row > 1 else ()
    held = in_row <= 4
    chunk = length if held else 4 * lanes
    return Plan(tiles={"i": 8 // in_row if held else 1}, chunks={"j": chunk}, lanes="j", streams=streams)


@sum_of_each_segment.plan
@cumulative_sum_segments.plan
def plan_segments(sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan:
    """A segment a program, four registers at a time; results larger than the cache pass it by."""
    if limits.warp > 1:
        return segments_on_gpu(sizes, dtypes, limits)
    width = 8 if "float64" in dtypes.values() else 4
    lanes = limits.register_bytes // width
    large = sizes["M"] * sizes["S"] * sizes["L"] * width >= limits.cache
    return Plan(
        tiles={"i": 1, "s": 1},
        chunks={"j": 4 * lanes, **({"t": lanes} if "out" in dtypes else {})},
        lanes="j",
        order=("i", "s"),
        streams=("out",) if large and "out" in dtypes else (),
    )


FEW = 64
"""Rows that are too few to keep all of a GPU busy."""


def cumulative_sum(x: Array, out: Array | None = None) -> Array:
    """The sum of each element and all before it along the last dimension.

    `x`: any shape and strides; f64, f32, f16 or bf16, the latter two added in f32. Returns `out`, which may be x, or a
    new array of x's shape and dtype. NaN and infinities reach all that follows, as in torch.
    Raises `ArgumentError` for other dtypes and for an `out` of another shape or dtype.
    """
    out = empty_like(x, tuple(x.shape)) if out is None else out
    rows, results = as_rows(x), as_rows(out)
    few = FEW if getattr(x, "is_cuda", False) else vk.get_threads()  # cutting costs a second reading
    segment = segment_of(rows.shape[1]) if rows.shape == results.shape and rows.shape[0] < few else None
    if segment is None:
        cumulative_sum_rows(rows, results)
    else:
        cut = as_segments(rows, segment)
        total = empty_like(cut, tuple(cut.shape[:2]), computed=True)
        sum_of_each_segment(cut, total)
        cumulative_sum_segments(cut, total, as_segments(results, segment))
    give_back(results, out)
    return out
