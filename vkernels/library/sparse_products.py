"""Products of CSR, ELL and block-sparse matrices with dense ones, and sampled dense products (SDDMM). Gradients are in
`sparse_products_gradients`."""

from __future__ import annotations

from jaxtyping import Float, Integer

import vkernels.language as vk
from vkernels.ir.errors import ArgumentError

from .activations import activated
from .arrays import Array, constant_like, empty_like
from .declared import Activation, Result, checked, replayed
from .indices import check_indices, check_starts
from .samples import SampleInputs, coordinates, entry, indices, segments

__all__ = ["block_matmul", "csr_matmul", "ell_matmul", "sampled_matmul"]


@vk.kernel
def ell_times_dense(
    column: Integer[vk.Tensor, "R L"],
    value: Float[vk.Tensor, "R L"],
    dense: Float[vk.Tensor, "K C"],
    bias: Float[vk.Tensor, "R"],
    out: Float[vk.Tensor, "R C"],
    activation: vk.Constant = "none",
):
    r = vk.tile("R")
    c = vk.tile("C")
    total = vk.zeros((r, c), value.dtype)
    for step in vk.range("L"):
        total += value[r, step] * dense[column[r, step], c]
    out[r, c] = activated(total + bias[r], activation)


@vk.kernel
def blocks_times_dense(
    start: Integer[vk.Tensor, "S"],
    column: Integer[vk.Tensor, "E"],
    block: Float[vk.Tensor, "E P Q"],
    dense: Float[vk.Tensor, "K Q C"],
    bias: Float[vk.Tensor, "R P"],
    out: Float[vk.Tensor, "R P C"],
    activation: vk.Constant = "none",
):
    r = vk.tile("R")
    p = vk.tile("P")
    c = vk.tile("C")
    q = vk.whole("Q")
    total = vk.zeros((r, p, c), vk.float64 if block.dtype == vk.float64 else vk.float32)
    for e in vk.range(start[r], start[r + 1]):
        total = vk.dot(block[e, p, q], dense[column[e], q, c], total)
    out[r, p, c] = activated(total + bias[r, p], activation)


@vk.kernel
def sampled_products(
    row: Integer[vk.Tensor, "E"],
    column: Integer[vk.Tensor, "E"],
    value: Float[vk.Tensor, "E"],
    a: Float[vk.Tensor, "R K"],
    b: Float[vk.Tensor, "C K"],
    out: Float[vk.Tensor, "E"],
):
    e = vk.tile("E")
    k = vk.whole("K")
    out[e] = value[e] * vk.sum(a[row[e], k] * b[column[e], k], axis=k)


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
def ell_matmul(
    column: Integer[Array, "R L"],
    value: Float[Array, "R L"],
    dense: Float[Array, "K C"],
    bias: Float[Array, "R"] | None = None,
    activation: Activation = "none",
    out: Result[Array, "R C", "dense"] | None = None,
    checked: bool = True,
) -> Array:
    """A sparse matrix in ELL form times a dense one: `activation(sum of value[r, l] * dense[column[r, l]] + bias[r])`.

    `column`: R × L integers from 0 up to K. `value`: R × L, `dense`: K × C; of any strides; f64, f32, f16 or bf16, the
    latter two added in f32. Shorter rows are padded with values of 0. `bias`: R elements, or none.
    `checked`: read `column` first; otherwise it must be right. Returns `out`, or a new R × C array like dense.
    Raises `ArgumentError` for other dtypes, shapes that do not match, and indices out of range.
    """
    if checked:
        check_indices("ell_matmul", "column", column, dense.shape[0])
    rows = value.shape[0]
    out = empty_like(dense, (rows, dense.shape[1])) if out is None else out
    ell_times_dense(column, value, dense, constant_like(value, 0.0, (rows,)) if bias is None else bias, out, activation)
    return out


@replayed
@checked
def block_matmul(
    start: Integer[Array, "R+1"],
    column: Integer[Array, "E"],
    block: Float[Array, "E P Q"],
    dense: Float[Array, "K*Q C"],
    bias: Float[Array, "R*P"] | None = None,
    activation: Activation = "none",
    out: Result[Array, "R*P C", "dense"] | None = None,
    checked: bool = True,
) -> Array:
    """A block-sparse matrix, stored by rows of blocks (BSR), times a dense one.

    `start`: R + 1 non-decreasing integers from 0 up to E: the blocks of each row of blocks. `column`: E integers,
    the column of each block, in blocks. `block`: E × P × Q; `dense`: a multiple of Q rows of C; of any strides; f64,
    f32, f16 or bf16, the latter two added in f32. `bias`: R · P elements, or none. `activation`: as in `activate`.
    `checked`: read `start` and `column` first; otherwise they must be right. Returns `out`, or a new R · P × C
    array like dense. Raises `ArgumentError` for other dtypes, shapes that do not match, and wrong indices.
    """
    cut = cut_for_blocks("block_matmul", start, column, block, dense, checked)
    down = block.shape[1]
    rows = start.shape[0] - 1
    out = empty_like(dense, (rows * down, dense.shape[1])) if out is None else out
    bias = constant_like(block, 0.0, (rows, down)) if bias is None else bias.reshape((rows, down))
    results = out.reshape((rows, down, out.shape[-1]))
    blocks_times_dense(start, column, block, cut, bias, results, activation)
    return out


def cut_for_blocks(function: str, start: Array, column: Array, block: Array, dense: Array, checked: bool) -> Array:
    """Dense as columns of blocks × Q × C; raises `ArgumentError` as `block_matmul` does."""
    if block.shape[2] == 0:
        raise ArgumentError(f"{function}: block has shape {tuple(block.shape)}, expected columns")
    across = block.shape[2]
    check_starts(function, start, block.shape[0], checked)
    if checked:
        check_indices(function, "column", column, dense.shape[0] // across)
    return dense.reshape((dense.shape[0] // across, across, dense.shape[1]))


@replayed
@checked
def sampled_matmul(
    row: Integer[Array, "E"],
    column: Integer[Array, "E"],
    value: Float[Array, "E"],
    a: Float[Array, "R K"],
    b: Float[Array, "C K"],
    out: Result[Array, "E", "value"] | None = None,
    checked: bool = True,
) -> Array:
    """The elements of a dense product at those of a sparse matrix (SDDMM): `value[e] * (a[row[e]] · b[column[e]])`.

    `row`, `column`: E integers. `value`: E; `a`: R × K, `b`: C × K (the second factor, transposed), of any strides;
    f64, f32, f16 or bf16, the latter two added in f32. `checked`: read `row` and `column` first. Returns `out`, or a
    new array of E elements like value.
    Raises `ArgumentError` for other dtypes, shapes that do not match, and wrong indices.
    """
    if checked:
        check_indices("sampled_matmul", "row", row, a.shape[0])
        check_indices("sampled_matmul", "column", column, b.shape[0])
    out = empty_like(value, tuple(value.shape)) if out is None else out
    sampled_products(row, column, value, a, b, out)
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

    `start`: R + 1 non-decreasing integers from 0 up to E. `column`: E integers. `value`: E values; `dense`: K × C;
    of any strides; f64, f32, f16 or bf16, the latter two added in f32. `bias`: R elements, or none. `activation`: as
    in `activate`. `checked`: read `start` and `column` first; otherwise they must be right. Returns `out`,
    or a new R × C array like dense.
    Raises `ArgumentError` for other dtypes or shapes that do not match, and for wrong indices.
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
    """`csr_matmul` of checked arguments."""
    bias = constant_like(value, 0.0, (start.shape[0] - 1,)) if bias is None else bias
    csr_times_dense(start, column, value, dense, bias, out, activation)


CATALOGUE = (
    entry(
        "csr_matmul",
        csr_times_dense,
        {"S": 65537, "R": 65536, "E": 1 << 20, "K": 65536, "C": 64},
        {"R": 4096, "E": 65536, "K": 4096, "C": 64},
        "float32",
        samples=segments(column="K"),
    ),
    entry(
        "ell_matmul",
        ell_times_dense,
        {"R": 65536, "L": 32, "K": 65536, "C": 64},
        {"R": 4096, "L": 16, "K": 4096, "C": 64},
        "float32",
        samples=SampleInputs(arrays=indices("column", "K", "R", "L")),
    ),
    entry(
        "block_matmul",
        blocks_times_dense,
        {"S": 513, "R": 512, "E": 8192, "P": 32, "Q": 32, "K": 512, "C": 256},
        {"R": 32, "E": 128, "P": 32, "Q": 32, "K": 32, "C": 128},
        samples=segments(column="K"),
    ),
    entry(
        "sampled_matmul",
        sampled_products,
        {"E": 1 << 18, "R": 4096, "C": 4096, "K": 64},
        {"E": 65536, "R": 4096, "C": 4096, "K": 64},
        "float32",
        samples=coordinates(columns="C"),
    ),
)
