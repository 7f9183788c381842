"""Cumulative sums along rows, from either end; few long rows are split into segments, which are summed first."""

from __future__ import annotations

from jaxtyping import Float

import vkernels.language as vk
from vkernels.runtime.determinism import threads_to_plan_for

from .arrays import Array, as_rows, as_segments, empty_like, fill
from .declared import Result, checked, replayed
from .rows import segment_of
from .samples import CPU_ROW_SEGMENTS, CPU_ROWS, LONG_ROWS, ROW_SEGMENTS, SHORT_ROWS, entry

__all__ = ["cumulative_sum"]


@vk.kernel
def cumulative_sum_rows(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = vk.cumulative_sum(x[i, j], axis=j)


@vk.kernel
def cumulative_sum_from_the_end(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    back = vk.size("N") - 1 - j
    out[i, back] = vk.cumulative_sum(x[i, back], axis=j)


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


@vk.kernel
def cumulative_sum_segments_from_the_end(
    x: Float[vk.Tensor, "M S L"], total: Float[vk.Tensor, "M S"], out: Float[vk.Tensor, "M S L"]
):
    i = vk.tile("M")
    s = vk.tile("S")
    j = vk.whole("L")
    t = vk.whole("S")
    back = vk.size("L") - 1 - j
    after = vk.sum(vk.where(t > s, total[i, t], 0.0), axis=t)
    out[i, s, back] = vk.cumulative_sum(x[i, s, back], axis=j) + after


FEW = 64
"""Fewer rows do not occupy a whole GPU."""


@replayed
@checked
def cumulative_sum(x: Float[Array, "*B N"], out: Result[Array, "*B N", "x"] | None = None) -> Array:
    """The sum of each element and all before it along the last dimension.

    `x`: any shape and strides; f64, f32, f16 or bf16, the latter two added in f32. Returns `out`, which may be x, or a
    new array of x's shape and dtype. NaN and infinities affect all later elements, as in torch.
    Raises `ArgumentError` for other dtypes and for an `out` of another shape or dtype.
    """
    return _cumulative_sum(x, out, cumulative_sum_rows, cumulative_sum_segments)


@replayed
@checked
def cumulative_sum_backward(grad: Float[Array, "*B N"], out: Result[Array, "*B N", "grad"] | None = None) -> Array:
    """The gradient of x, given the gradient of `cumulative_sum(x)`: the sum of each element and all after it.

    `grad`: of x's shape and dtype; otherwise as `cumulative_sum`.
    """
    kernels = cumulative_sum_from_the_end, cumulative_sum_segments_from_the_end
    return _cumulative_sum(grad, out, *kernels)


def _cumulative_sum(x: Array, out: Array | None, of_rows: vk.Kernel, of_segments: vk.Kernel) -> Array:
    rows = as_rows(x)
    few = FEW if getattr(x, "is_cuda", False) else threads_to_plan_for()  # splitting needs a second pass
    segment = segment_of(rows.shape[1]) if rows.shape[0] < few else None
    if segment is None:
        return fill(out, x, lambda results: of_rows(rows, results))
    cut = as_segments(rows, segment)
    total = empty_like(cut, tuple(cut.shape[:2]), computed=True)
    sum_of_each_segment(cut, total)
    return fill(out, x, lambda results: of_segments(cut, total, as_segments(results, segment)))


CATALOGUE = (
    entry("cumulative_sum", cumulative_sum_rows, SHORT_ROWS, CPU_ROWS, "float32"),
    entry("cumulative_sum", cumulative_sum_rows, LONG_ROWS, CPU_ROWS, "float32"),
    entry("cumulative_sum", sum_of_each_segment, ROW_SEGMENTS, CPU_ROW_SEGMENTS, "float32", computed=("total",)),
    entry("cumulative_sum", cumulative_sum_segments, ROW_SEGMENTS, CPU_ROW_SEGMENTS, "float32", computed=("total",)),
    entry("cumulative_sum", cumulative_sum_from_the_end, SHORT_ROWS, CPU_ROWS, "float32"),
    entry(
        "cumulative_sum",
        cumulative_sum_segments_from_the_end,
        ROW_SEGMENTS,
        CPU_ROW_SEGMENTS,
        "float32",
        computed=("total",),
    ),
)
