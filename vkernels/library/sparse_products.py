"""Products with sparse matrices: ELL and block-sparse rows times dense, dense times dense where a sparse one has
elements, and bags of embeddings. CSR times dense stands in `segments`."""

from __future__ import annotations

from typing import Annotated

from jaxtyping import Float, Integer

import vkernels as vk

from .activations import activated
from .annotations import Activation, OneOf, Result
from .arrays import Array, constant_like, empty_like
from .declared import checked
from .indices import check_indices, check_starts
from .replay import replayed


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
def bags_of_rows(
    start: Integer[vk.Tensor, "S"],
    index: Integer[vk.Tensor, "E"],
    table: Float[vk.Tensor, "V C"],
    out: Float[vk.Tensor, "R C"],
    kind: vk.Constant = "sum",
):
    r = vk.tile("R")
    c = vk.tile("C")
    total = vk.full((r, c), float("-inf") if kind == "max" else 0.0, table.dtype)
    for e in vk.range(start[r], start[r + 1]):
        if kind == "max":
            total = vk.maximum(total, table[index[e], c])
        else:
            total += table[index[e], c]
    count = start[r + 1] - start[r]
    out[r, c] = vk.where(count > 0, total / vk.maximum(count, 1) if kind == "mean" else total, 0.0)


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
    latter two added in f32. Rows of fewer elements are filled up with values of 0. `bias`: R elements, or none.
    `checked`: read `column` first; without, what it says must be right. Returns `out`, or a new R × C array like dense.
    Raises `ArgumentError` for other dtypes, shapes that do not go together, and indices out of range.
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
    """A matrix of which only some blocks are stored, row by row of blocks (BSR), times a dense one.

    `start`: R + 1 integers that do not fall, from 0 up to E: the blocks of each row of blocks. `column`: E integers,
    the column of each block, in blocks. `block`: E × P × Q; `dense`: a multiple of Q rows of C; of any strides; f64,
    f32, f16 or bf16, the latter two added in f32. `bias`: R · P elements, or none. `activation`: as `activate` has it.
    `checked`: read `start` and `column` first; without, what they say must be right. Returns `out`, or a new R · P × C
    array like dense. Raises `ArgumentError` for other dtypes, shapes that do not go together, and wrong indices.
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
    """Dense as rows of blocks have it: columns of blocks × Q × C; raises `ArgumentError` as `block_matmul` does."""
    if block.shape[2] == 0:
        raise vk.ArgumentError(f"{function}: block has shape {tuple(block.shape)}, expected columns")
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
    """The elements of a dense product where a sparse matrix has some (SDDMM): `value[e] * (a[row[e]] · b[column[e]])`.

    `row`, `column`: E integers. `value`: E; `a`: R × K, `b`: C × K (the second factor, transposed), of any strides;
    f64, f32, f16 or bf16, the latter two added in f32. `checked`: read `row` and `column` first. Returns `out`, or a
    new array of E elements like value.
    Raises `ArgumentError` for other dtypes, shapes that do not go together, and wrong indices.
    """
    if checked:
        check_indices("sampled_matmul", "row", row, a.shape[0])
        check_indices("sampled_matmul", "column", column, b.shape[0])
    out = empty_like(value, tuple(value.shape)) if out is None else out
    sampled_products(row, column, value, a, b, out)
    return out


Bag = Annotated[str, OneOf(("sum", "mean", "max"))]


@replayed
@checked
def embedding_bag(
    table: Float[Array, "V C"],
    index: Integer[Array, "E"],
    start: Integer[Array, "R+1"],
    kind: Bag = "sum",
    out: Result[Array, "R C", "table"] | None = None,
    checked: bool = True,
) -> Array:
    """The sum, mean or max of a table's rows for each bag, whose indices are `index[start[r] : start[r + 1]]`.

    `table`: V × C, of any strides; f64, f32, f16 or bf16, the latter two computed in f32. `index`: E integers from 0 up
    to V. `start`: R + 1 integers that do not fall, from 0 up to E. `kind`: which of the three. An empty bag gives 0.
    `checked`: read `start` and `index` first. Returns `out`, or a new R × C array like table.
    Raises `ArgumentError` for other dtypes or kinds, shapes that do not go together, and wrong indices.
    """
    check_bags("embedding_bag", table, index, start, checked)
    out = empty_like(table, (start.shape[0] - 1, table.shape[1])) if out is None else out
    bags_of_rows(start, index, table, out, kind)
    return out


def check_bags(function: str, table: Array, index: Array, start: Array, checked: bool) -> None:
    """Raises `ArgumentError` as `embedding_bag` does; `checked`: looks at elements too."""
    check_starts(function, start, index.shape[0], checked)
    if checked:
        check_indices(function, "index", index, table.shape[0])
