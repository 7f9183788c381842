"""Gradients of products with sparse matrices. Sums have a fixed order, without atomics: results are reproducible."""

from __future__ import annotations

from jaxtyping import Float, Integer

import vkernels.language as vk

from .activations import before_activation
from .arrays import Array, as_computed, constant_like, empty_like, laid_out
from .declared import Activation, checked, replayed
from .indices import check_indices, check_starts
from .reductions import sum as sum_along
from .replay import computed
from .samples import SampleInputs, coordinates, entry, indices
from .sparse_products import blocks_times_dense, csr_product, cut_for_blocks, ell_times_dense, sampled_products
from .transposes import Transpose, csr_transpose, ell_transpose, pair_transposes, rows_of


@vk.kernel
def csr_value_gradient(
    row: Integer[vk.Tensor, "E"],
    column: Integer[vk.Tensor, "E"],
    grad: Float[vk.Tensor, "R C"],
    dense: Float[vk.Tensor, "K C"],
    out: Float[vk.Tensor, "E"],
):
    e = vk.tile("E")
    c = vk.whole("C")
    at = row[e].to(vk.int64)  # int64: the number of rows may exceed its dtype
    inside = (at >= 0) & (at < vk.size("R"))
    products = vk.load(grad[row[e], c], where=inside) * vk.load(dense[column[e], c], where=inside)
    out[e] = vk.sum(products, axis=c)


@vk.kernel
def ell_value_gradient(
    column: Integer[vk.Tensor, "R L"],
    grad: Float[vk.Tensor, "R C"],
    dense: Float[vk.Tensor, "K C"],
    out: Float[vk.Tensor, "R L"],
):
    r = vk.tile("R")
    l = vk.tile("L")
    c = vk.whole("C")
    out[r, l] = vk.sum(grad[r, c] * dense[column[r, l], c], axis=c)


@vk.kernel
def block_gradient(
    row: Integer[vk.Tensor, "E"],
    column: Integer[vk.Tensor, "E"],
    grad: Float[vk.Tensor, "R P C"],
    dense: Float[vk.Tensor, "K Q C"],
    out: Float[vk.Tensor, "E P Q"],
):
    e = vk.tile("E")
    p = vk.tile("P")
    q = vk.tile("Q")
    c = vk.whole("C")
    at = row[e].to(vk.int64)  # int64: the number of rows may exceed its dtype
    inside = (at >= 0) & (at < vk.size("R"))
    change, factor = vk.load(grad[row[e], p, c], where=inside), vk.load(dense[column[e], q, c], where=inside)
    out[e, p, q] = vk.dot(change, factor)


def _in_order(value: Array, order: Array) -> Array:
    return value.reshape(-1)[order]


@replayed
@checked
def csr_matmul_backward(
    grad: Float[Array, "R C"],
    start: Integer[Array, "R+1"],
    column: Integer[Array, "E"],
    value: Float[Array, "E"],
    dense: Float[Array, "K C"],
    bias: Float[Array, "R"] | None = None,
    activation: Activation = "none",
    transpose: Transpose | None = None,
    checked: bool = True,
) -> tuple[Array, Array, Array | None]:
    """The gradients of value, dense and bias, given that of `csr_matmul(start, column, value, dense, bias,
    activation)`.

    `grad`: R × C. With an activation, sums are recomputed. `transpose`: `csr_transpose(start, column, K)`,
    computed if not given. New arrays; None without a bias.
    Raises `ArgumentError` for other dtypes, shapes that do not match, and indices out of range or order.
    """
    check_starts("csr_matmul_backward", start, value.shape[0], checked)
    if checked:
        check_indices("csr_matmul_backward", "column", column, dense.shape[0])
    change = before_activation(grad, activation, lambda sums: csr_product(start, column, value, dense, sums, bias))
    of_value, of_dense = empty_like(value, tuple(value.shape)), empty_like(dense, tuple(dense.shape))
    transpose = csr_transpose(start, column, dense.shape[0]) if transpose is None else transpose
    row = rows_of(start, value.shape[0]) if transpose.row_of is None else transpose.row_of
    csr_value_gradient(row, column, change, dense, of_value)
    csr_product(transpose.start, transpose.row, computed(_in_order, value, transpose.order), change, of_dense)
    return of_value, of_dense, None if bias is None else sum_along(change, 1)


@replayed
@checked
def ell_matmul_backward(
    grad: Float[Array, "R C"],
    column: Integer[Array, "R L"],
    value: Float[Array, "R L"],
    dense: Float[Array, "K C"],
    bias: Float[Array, "R"] | None = None,
    activation: Activation = "none",
    transpose: Transpose | None = None,
    checked: bool = True,
) -> tuple[Array, Array, Array | None]:
    """The gradients of value, dense and bias, given that of `ell_matmul(column, value, dense, bias, activation)`.

    `grad`: R × C. With an activation, sums are recomputed. `transpose`: `ell_transpose(column, K)`, computed
    if not given. New arrays; None without a bias.
    Raises `ArgumentError` for other dtypes, shapes that do not match, and indices out of range.
    """
    if checked:
        check_indices("ell_matmul_backward", "column", column, dense.shape[0])
    biases = constant_like(value, 0.0, (value.shape[0],)) if bias is None else bias
    change = before_activation(grad, activation, lambda sums: ell_times_dense(column, value, dense, biases, sums))
    of_value, of_dense = empty_like(value, tuple(value.shape)), empty_like(dense, tuple(dense.shape))
    ell_value_gradient(column, change, dense, of_value)
    transpose = ell_transpose(column, dense.shape[0]) if transpose is None else transpose
    csr_product(transpose.start, transpose.row, computed(_in_order, value, transpose.order), change, of_dense)
    return of_value, of_dense, None if bias is None else sum_along(change, 1)


@checked
def block_matmul_backward(
    grad: Float[Array, "R*P C"],
    start: Integer[Array, "R+1"],
    column: Integer[Array, "E"],
    block: Float[Array, "E P Q"],
    dense: Float[Array, "K*Q C"],
    bias: Float[Array, "R*P"] | None = None,
    activation: Activation = "none",
    transpose: Transpose | None = None,
    checked: bool = True,
) -> tuple[Array, Array, Array | None]:
    """The gradients of block, dense and bias, given that of `block_matmul(start, column, block, dense, bias,
    activation)`.

    `grad`: R · P × C. With an activation, sums are recomputed. `transpose`: `csr_transpose(start, column,
    columns of blocks)`, computed if not given. New arrays; None without a bias.
    Raises `ArgumentError` for other dtypes, shapes that do not match, and wrong indices.
    """
    cut = cut_for_blocks("block_matmul_backward", start, column, block, dense, checked)
    rows, (down, across) = start.shape[0] - 1, block.shape[1:]
    shape = (rows, down, dense.shape[1])
    biases = constant_like(block, 0.0, shape[:2]) if bias is None else bias.reshape(shape[:2])
    change = before_activation(
        grad, activation, lambda sums: blocks_times_dense(start, column, block, cut, biases, sums.reshape(shape))
    ).reshape(shape)
    of_block, of_dense = empty_like(block, tuple(block.shape)), empty_like(dense, tuple(cut.shape))
    lying = laid_out(cut.swapaxes(1, 2)).swapaxes(1, 2)  # read once a block, along Q
    block_gradient(rows_of(start, block.shape[0]), column, change, lying, of_block)
    transpose = csr_transpose(start, column, cut.shape[0]) if transpose is None else transpose
    none = constant_like(block, 0.0, (cut.shape[0], across))
    turned = block[transpose.order].swapaxes(1, 2)
    blocks_times_dense(transpose.start, transpose.row, turned, change, none, of_dense)
    of_bias = None if bias is None else sum_along(change, 2).reshape(bias.shape)
    return of_block, of_dense.reshape(dense.shape), of_bias


@checked
def sampled_matmul_backward(
    grad: Float[Array, "E"],
    row: Integer[Array, "E"],
    column: Integer[Array, "E"],
    value: Float[Array, "E"],
    a: Float[Array, "R K"],
    b: Float[Array, "C K"],
    transposes: tuple[Transpose, Transpose] | None = None,
    checked: bool = True,
) -> tuple[Array, Array, Array]:
    """The gradients of value, a and b, given the gradient of `sampled_matmul(row, column, value, a, b)`: new arrays.

    `grad`: E elements. `transposes`: `pair_transposes(row, column, R, C)`, computed if not given.
    Raises `ArgumentError` for other dtypes, shapes that do not match, and wrong indices.
    """
    if checked:
        check_indices("sampled_matmul_backward", "row", row, a.shape[0])
        check_indices("sampled_matmul_backward", "column", column, b.shape[0])
    of_value, of_a, of_b = (empty_like(array, tuple(array.shape)) for array in (value, a, b))
    sampled_products(row, column, grad, a, b, of_value)
    scaled = as_computed(grad) * as_computed(value)
    by_row, by_column = pair_transposes(row, column, a.shape[0], b.shape[0]) if transposes is None else transposes
    csr_product(by_row.start, by_row.row, scaled[by_row.order], b, of_a)
    csr_product(by_column.start, by_column.row, scaled[by_column.order], a, of_b)
    return of_value, of_a, of_b


CATALOGUE = (
    entry(
        "csr_matmul",
        csr_value_gradient,
        {"E": 1 << 20, "R": 65536, "K": 65536, "C": 64},
        {"R": 4096, "E": 65536, "K": 4096, "C": 64},
        "float32",
        samples=coordinates(columns="K"),
    ),
    entry(
        "ell_matmul",
        ell_value_gradient,
        {"R": 65536, "L": 32, "K": 65536, "C": 64},
        {"R": 4096, "L": 16, "K": 4096, "C": 64},
        "float32",
        samples=SampleInputs(arrays=indices("column", "K", "R", "L")),
    ),
    entry(
        "block_matmul",
        block_gradient,
        {"E": 8192, "R": 512, "K": 512, "P": 32, "Q": 32, "C": 256},
        {"R": 32, "E": 128, "P": 32, "Q": 32, "K": 32, "C": 128},
        samples=coordinates(columns="K"),
    ),
)
