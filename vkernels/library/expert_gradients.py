"""Gradients of products of which every row has a matrix of its own among a few, and of mixtures made of them."""

from __future__ import annotations

from jaxtyping import Float, Integer

import vkernels as vk

from .activations import before_activation
from .annotations import Activation
from .arrays import Array, check_shape, constant_like, empty_like, laid_out
from .declared import checked
from .experts import BLOCK, Routes, grouped_matmul, route
from .indices import check_indices
from .segments import csr_product, segment_sum
from .sparse_gradients import ell_value_gradient
from .transposes import count_up, grouped


@vk.kernel
def group_weight_gradient(
    x: Float[vk.Tensor, "T K"],
    row: Integer[vk.Tensor, "E"],
    start: Integer[vk.Tensor, "S"],
    grad: Float[vk.Tensor, "E N"],
    out: Float[vk.Tensor, "G K N"],
):
    g = vk.tile("G")
    k = vk.tile("K")
    n = vk.tile("N")
    i = vk.whole(BLOCK)
    first = start[g].to(vk.int64)  # of few bits, what is added below might overflow
    length = start[g + 1].to(vk.int64) - first
    total = vk.zeros((g, k, n), vk.float64 if x.dtype == vk.float64 else vk.float32)
    for step in vk.range(0, (length + BLOCK - 1) // BLOCK):
        place = BLOCK * step + i
        is_row = place < length
        token = vk.load(row[first + place], where=is_row)
        change = vk.load(grad[first + place, n], where=is_row)
        total = vk.dot(vk.load(x[token, k], where=is_row), change, total)
    out[g, k, n] = total


@checked
def grouped_matmul_backward(
    grad: Float[Array, "S N"],
    x: Float[Array, "T K"],
    weight: Float[Array, "G K N"],
    start: Integer[Array, "G+1"],
    bias: Float[Array, "G N"] | None = None,
    activation: Activation = "none",
    row: Integer[Array, "S"] | None = None,
    checked: bool = True,
) -> tuple[Array, Array, Array | None]:
    """The gradients of x, weight and bias, of that of `grouped_matmul(x, weight, start, bias, activation, row)`.

    `grad`: S × N. With an activation the products are computed again. New arrays; none where there is no bias. Sums
    have one order, without atomics. Raises `ArgumentError` as `grouped_matmul` does.
    """
    rows = x.shape[0] if row is None else row.shape[0]
    check_shape("grouped_matmul_backward", "grad", grad, (rows, weight.shape[2]))  # x's own where there is no `row`
    if row is not None and checked:
        check_indices("grouped_matmul_backward", "row", row, x.shape[0])
    change = grad
    if activation != "none":
        products = empty_like(grad, tuple(grad.shape), computed=True)
        grouped_matmul(x, weight, start, bias, "none", row, products, checked=False)
        change = before_activation(grad, products, activation)
    of_rows = empty_like(x, (rows, x.shape[1]), computed=row is not None)
    grouped_matmul(change, laid_out(weight.swapaxes(1, 2)), start, out=of_rows)
    of_weight = empty_like(weight, tuple(weight.shape))
    places = count_up(start, rows) if row is None else row
    group_weight_gradient(x, places, start, change, of_weight)
    of_x = of_rows if row is None else _added_up(of_rows, row, empty_like(x, tuple(x.shape)))
    return of_x, of_weight, None if bias is None else segment_sum(change, start, checked=False)


@checked
def mixture_of_experts_backward(
    grad: Float[Array, "T N"],
    x: Float[Array, "T K"],
    expert: Integer[Array, "T C"],
    gate: Float[Array, "T C"],
    w1: Float[Array, "G K H"],
    w2: Float[Array, "G H N"],
    b1: Float[Array, "G H"] | None = None,
    b2: Float[Array, "G N"] | None = None,
    activation: Activation = "gelu",
    checked: bool = True,
) -> tuple[Array, Array, Array, Array, Array | None, Array | None]:
    """The gradients of x, gate, w1, w2, b1 and b2, of the gradient of `mixture_of_experts`, whose arguments these are.

    `grad`: T × N. What lies between the layers is computed again; it and its gradients are rounded to x's dtype. New
    arrays; none where there is no bias. Raises `ArgumentError` as `mixture_of_experts` does.
    """
    routes = route("mixture_of_experts_backward", expert, w1.shape[0], checked)
    hidden = grouped_matmul(x, w1, routes.start, b1, activation, routes.token, checked=False)
    results = grouped_matmul(hidden, w2, routes.start, b2)
    of_gate = empty_like(gate, tuple(gate.shape))
    ell_value_gradient(routes.place, grad, results, of_gate)
    of_results = _weighted_by_gate(grad, gate, routes)
    of_hidden, of_w2, of_b2 = grouped_matmul_backward(of_results, hidden, w2, routes.start, b2)
    of_x, of_w1, of_b1 = grouped_matmul_backward(
        of_hidden, x, w1, routes.start, b1, activation, routes.token, checked=False
    )
    return of_x, of_gate, of_w1, of_w2, of_b1, of_b2


def _weighted_by_gate(grad: Array, gate: Array, routes: Routes) -> Array:
    """The gradient of each choice's result, in the order of experts: a row of one element each."""
    out = empty_like(grad, (routes.token.shape[0], grad.shape[1]))
    each = count_up(routes.token, routes.token.shape[0] + 1)
    csr_product(each, routes.token, gate.reshape(-1)[routes.order], grad, out)
    return out


def _added_up(of_rows: Array, row: Array, out: Array) -> Array:
    """The sum of what each row of x was taken for."""
    transpose = grouped(row, count_up(row, row.shape[0]), out.shape[0])
    ones = constant_like(of_rows, 1.0, (row.shape[0],))
    csr_product(transpose.start, transpose.row, ones, of_rows, out)
    return out
