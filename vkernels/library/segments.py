"""Sums over segments of any lengths, which stand one after another: the rows of a CSR matrix."""

from __future__ import annotations

from jaxtyping import Float, Integer

import vkernels as vk

from .activations import activated
from .annotations import Activation, Result
from .arrays import Array, constant_like, empty_like
from .declared import checked
from .indices import check_indices, check_starts
from .replay import replayed


@vk.kernel
def sum_segments(start: Integer[vk.Tensor, "S"], value: Float[vk.Tensor, "E"], out: Float[vk.Tensor, "R"]):
    r = vk.tile("R")
    a = vk.whole(32)
    first = start[r].to(vk.int64)  # of few bits, what is added below might overflow
    length = start[r + 1].to(vk.int64) - first
    total = vk.zeros((r, a), value.dtype)
    for step in vk.range(0, (length + 31) // 32):
        total += vk.load(value[first + 32 * step + a], where=32 * step + a < length)
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
def csr_times_dense(
    start: Integer[vk.Tensor, "S"],
    column: Integer[vk.Tensor, "E"],
    value: Float[vk.Tensor, "E"],
    dense: Float[vk.Tensor, "K C"],
    bias: Float[vk.Tensor, "R"],
    out: Float[vk.Tensor, "R C"],
    activation: vk.Constant = "none",
):
    r = vk.tile("R")
    c = vk.tile("C")
    total = vk.zeros((r, c), value.dtype)
    for e in vk.range(start[r], start[r + 1]):
        total += value[e] * dense[column[e], c]
    out[r, c] = activated(total + bias[r], activation)


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
    integers that do not fall, from 0 up to E, as of the rows of a CSR matrix. Returns `out`, or a new array of R
    results, or R × C, of value's dtype. `checked`: read `start` first; without, what it says must be right.
    Raises `ArgumentError` for other dtypes or shapes that do not go together, and for starts that are out of order.
    """
    check_starts("segment_sum", start, value.shape[0], checked)
    out = empty_like(value, (start.shape[0] - 1, *value.shape[1:])) if out is None else out
    kernel = sum_segments if value.ndim == 1 else sum_segment_rows
    kernel(start, value, out)
    return out


@replayed
@checked
def csr_matmul(
    start: Integer[Array, "R+1"],
    column: Integer[Array, "E"],
    value: Float[Array, "E"],
    dense: Float[Array, "K C"],
    bias: Float[Array, "R"] | None = None,
    activation: Activation = "none",
    out: Result[Array, "R C", "dense"] | None = None,
    checked: bool = True,
) -> Array:
    """A sparse matrix in CSR form times a dense one: `activation(sum of value[e] * dense[column[e]] + bias[r])` over
    the elements e of row r.

    `start`: R + 1 integers that do not fall, from 0 up to E. `column`: E integers. `value`: E values; `dense`: K × C;
    of any strides; f64, f32, f16 or bf16, the latter two added in f32. `bias`: R elements, or none. `activation`: as
    `activate` has it. `checked`: read `start` and `column` first; without, what they say must be right. Returns `out`,
    or a new R × C array like dense.
    Raises `ArgumentError` for other dtypes or shapes that do not go together, and for indices out of range or order.
    """
    check_starts("csr_matmul", start, value.shape[0], checked)
    if checked:
        check_indices("csr_matmul", "column", column, dense.shape[0])
    out = empty_like(dense, (start.shape[0] - 1, dense.shape[1])) if out is None else out
    csr_product(start, column, value, dense, out, bias, activation)
    return out


def csr_product(
    start: Array,
    column: Array,
    value: Array,
    dense: Array,
    out: Array,
    bias: Array | None = None,
    activation: str = "none",
) -> None:
    """`csr_matmul` of arguments that are known to go together."""
    bias = constant_like(value, 0.0, (start.shape[0] - 1,)) if bias is None else bias
    csr_times_dense(start, column, value, dense, bias, out, activation)
