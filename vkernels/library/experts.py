"""Grouped matrix products, in which each group of rows has its own matrix, and mixtures of experts."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Integer

import vkernels.language as vk
from vkernels.ir.errors import ArgumentError

from .activations import activated, before_activation
from .arrays import Array, as_signed, check_shape, constant_like, empty_like, laid_out, read_on_this_stream
from .declared import Activation, Result, checked, replayed
from .gpu_arrays import made_to_keep
from .indices import check_indices
from .samples import Arrays, Constants, SampleInputs, Sizes, entry, random_indices
from .segments import segment_sum
from .sparse_products import csr_product, ell_times_dense
from .sparse_products_gradients import ell_value_gradient
from .transposes import Transpose, count_up, grouped

__all__ = ["grouped_matmul", "mixture_of_experts"]

BLOCK = 32
"""Rows per block; the last block of a group may have fewer."""


@vk.kernel
def multiply_blocks(
    x: Float[vk.Tensor, "T K"],
    row: Integer[vk.Tensor, "S"],
    weight: Float[vk.Tensor, "G K N"],
    bias: Float[vk.Tensor, "G N"],
    group: Int[vk.Tensor, "B"],
    first: Int[vk.Tensor, "B"],
    end: Int[vk.Tensor, "B"],
    out: Float[vk.Tensor, "S N"],
    activation: vk.Constant = "none",
):
    b = vk.tile("B")
    n = vk.tile("N")
    i = vk.whole(BLOCK)
    k = vk.whole("K")
    is_row = first[b] + i < end[b]
    token = vk.load(row[first[b] + i], where=is_row)
    product = vk.dot(vk.load(x[token, k], where=is_row), weight[group[b], k, n])
    vk.store(out[first[b] + i, n], activated(product + bias[group[b], n], activation), where=is_row)


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
    first = start[g].to(vk.int64)  # int64: sums below may overflow shorter integers
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
def grouped_matmul(
    x: Float[Array, "T K"],
    weight: Float[Array, "G K N"],
    start: Integer[Array, "G+1"],
    bias: Float[Array, "G N"] | None = None,
    activation: Activation = "none",
    row: Integer[Array, "S"] | None = None,
    out: Result[Array, "S N"] | None = None,
    checked: bool = True,
) -> Array:
    """`activation(x[row[s]] @ weight[g] + bias[g])` for each s from start[g] up to start[g + 1].

    `x`: T × K, `weight`: G × K × N, of any strides and one dtype: f64, f32, f16 or bf16, the latter two added in f32.
    `start`: G + 1 non-decreasing integers from 0 to S, read on the host. `bias`: G × N, or none. `row`: S integers,
    the rows of x in the order of groups; by default 0, 1, …. `checked`: read `row` first. Returns `out`, of
    any of these dtypes, or a new S × N array like x.
    Raises `ArgumentError` for other dtypes, shapes that do not match, and wrong indices.
    """
    rows = x.shape[0] if row is None else row.shape[0]
    ends = tuple(start.tolist())
    if ends[0] != 0 or ends[-1] != rows or any(end < begin for begin, end in pairwise(ends)):
        raise ArgumentError(
            f"grouped_matmul: start is {list(ends)}, expected "
            f"{weight.shape[0] + 1} starts that do not fall, from 0 to {rows}"
        )
    if row is not None and checked:
        check_indices("grouped_matmul", "row", row, x.shape[0])
    if out is not None:
        check_shape("grouped_matmul", "out", out, (rows, weight.shape[2]))
    tables = _blocks_and_rows(ends, None if isinstance(start, np.ndarray) else start.device)
    blocks, rows_in_order = map(read_on_this_stream, tables)
    return _multiply(x, rows_in_order if row is None else row, weight, blocks, bias, activation, out)


@replayed
def _multiply(
    x: Array, row: Array, weight: Array, blocks: Array, bias: Array | None, activation: str, out: Array | None
) -> Array:
    bias = constant_like(weight, 0.0, (weight.shape[0], weight.shape[2])) if bias is None else bias
    out = empty_like(x, (row.shape[0], weight.shape[2])) if out is None else out
    multiply_blocks(x, row, weight, bias, blocks[0], blocks[1], blocks[2], out, activation)
    return out


@lru_cache(maxsize=64)
def _blocks_and_rows(ends: tuple[int, ...], device: Any) -> tuple[Array, Array]:
    """Each block's group, first row and group end, and all row numbers. `device`: a torch device, or None for NumPy."""
    blocks = [
        (group, first, end) for group, (begin, end) in enumerate(pairwise(ends)) for first in range(begin, end, BLOCK)
    ]
    arrays = np.array(blocks, np.int64).reshape(-1, 3).T.copy(), np.arange(ends[-1], dtype=np.int64)
    if device is None:
        return arrays
    import torch

    table, rows = map(torch.from_numpy, arrays)
    return made_to_keep(device, lambda: (table.to(device), rows.to(device)))


@checked
def mixture_of_experts(
    x: Float[Array, "T K"],
    expert: Integer[Array, "T C"],
    gate: Float[Array, "T C"],
    w1: Float[Array, "G K H"],
    w2: Float[Array, "G H N"],
    b1: Float[Array, "G H"] | None = None,
    b2: Float[Array, "G N"] | None = None,
    activation: Activation = "gelu",
    checked: bool = True,
) -> Array:
    """The sum over each token's experts of `gate * (activation(x @ w1 + b1) @ w2 + b2)` (Shazeer et al. 2017).

    `x`: T × K tokens; `expert`: T × C integers, each token's experts; `gate`: T × C, their weights; `w1`: G × K × H
    and `w2`: G × H × N, one matrix an expert, `b1`: G × H and `b2`: G × N, or none; of any strides and one dtype: f64,
    f32, f16 or bf16. No token is dropped, however many an expert gets. `checked`: read `expert` first; without,
    what it says must be right. Returns a new T × N array like x.
    Raises `ArgumentError` for other dtypes, shapes that do not match, and unknown experts.
    """
    routes, place = route("mixture_of_experts", expert, w1.shape[0], checked)
    hidden = grouped_matmul(x, w1, routes.start, b1, activation, routes.row, checked=False)
    results = grouped_matmul(hidden, w2, routes.start, b2)
    out = empty_like(x, (x.shape[0], w2.shape[2]))
    ell_times_dense(place, gate, results, constant_like(gate, 0.0, (x.shape[0],)), out)
    return out


def route(function: str, expert: Array, experts: int, checked: bool) -> tuple[Transpose, Array]:
    """Sort the choices of tokens, T × C, by expert; raises `ArgumentError` for wrong experts.

    Returns the choices by expert, with their tokens as rows, and T × C positions of choices in this order.
    """
    if checked:
        check_indices(function, "expert", expert, experts)
    flat = as_signed(expert).reshape(-1)
    routes = grouped(flat, count_up(flat, flat.shape[0]) // max(1, expert.shape[1]), experts)
    return routes, routes.order.argsort().reshape(expert.shape)


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
    """The gradients of x, weight and bias, given that of `grouped_matmul(x, weight, start, bias, activation, row)`.

    `grad`: S × N. With an activation the products are recomputed. New arrays; None without a bias. Sums
    have one order, without atomics. Raises `ArgumentError` as `grouped_matmul` does.
    """
    rows = x.shape[0] if row is None else row.shape[0]
    check_shape("grouped_matmul_backward", "grad", grad, (rows, weight.shape[2]))
    if row is not None and checked:
        check_indices("grouped_matmul_backward", "row", row, x.shape[0])
    change = before_activation(
        grad,
        activation,
        lambda products: grouped_matmul(x, weight, start, bias, "none", row, products, checked=False),
    )
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
    """The gradients of x, gate, w1, w2, b1 and b2, given the gradient of `mixture_of_experts`, whose arguments these
    are.

    `grad`: T × N. The values between the layers are recomputed; they and their gradients are rounded to x's dtype. New
    arrays; None without a bias. Raises `ArgumentError` as `mixture_of_experts` does.
    """
    routes, place = route("mixture_of_experts_backward", expert, w1.shape[0], checked)
    hidden = grouped_matmul(x, w1, routes.start, b1, activation, routes.row, checked=False)
    results = grouped_matmul(hidden, w2, routes.start, b2)
    of_gate = empty_like(gate, tuple(gate.shape))
    ell_value_gradient(place, grad, results, of_gate)
    of_results = _weighted_by_gate(grad, gate, routes)
    of_hidden, of_w2, of_b2 = grouped_matmul_backward(of_results, hidden, w2, routes.start, b2)
    of_x, of_w1, of_b1 = grouped_matmul_backward(
        of_hidden, x, w1, routes.start, b1, activation, routes.row, checked=False
    )
    return of_x, of_gate, of_w1, of_w2, of_b1, of_b2


def _weighted_by_gate(grad: Array, gate: Array, routes: Transpose) -> Array:
    out = empty_like(grad, (routes.row.shape[0], grad.shape[1]))
    each = count_up(routes.row, routes.row.shape[0] + 1)
    csr_product(each, routes.row, gate.reshape(-1)[routes.order], grad, out)
    return out


def _added_up(of_rows: Array, row: Array, out: Array) -> Array:
    transpose = grouped(row, count_up(row, row.shape[0]), out.shape[0])
    ones = constant_like(of_rows, 1.0, (row.shape[0],))
    csr_product(transpose.start, transpose.row, ones, of_rows, out)
    return out


def _group_ends(rows: int, groups: int) -> np.ndarray:
    """Ends of groups of unequal lengths, as for routed tokens: the last is three times as long as the first."""
    shares = np.linspace(1, 3, max(1, groups))
    ends: np.ndarray = np.floor(np.cumsum(shares) / shares.sum() * rows + 0.5).astype(np.int64)[:groups]
    return ends


def _group_blocks(sizes: Sizes) -> np.ndarray:
    """For each block: its group, its first row and its group's end."""
    ends = _group_ends(sizes["S"], sizes["G"])
    begins = [0, *ends[:-1]]
    blocks = [(g, first, ends[g]) for g in range(len(ends)) for first in range(begins[g], ends[g], BLOCK)]
    return np.array(blocks, np.int64).reshape(-1, 3)


def _random_blocks(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
    group, first, end = _group_blocks(sizes).T
    return {"row": random_indices(sizes["T"], sizes["S"], random), "group": group, "first": first, "end": end}


def _random_groups(sizes: Sizes, constants: Constants, random: np.random.Generator) -> Arrays:
    start = np.array([0, *_group_ends(sizes["E"], sizes["G"])], np.int64)
    return {"row": random_indices(sizes["T"], sizes["E"], random), "start": start}


_BLOCKS = SampleInputs({"B": lambda sizes, constants: len(_group_blocks(sizes))}, arrays=_random_blocks)
_GROUPS = SampleInputs({"S": lambda sizes, constants: sizes["G"] + 1}, arrays=_random_groups)


CATALOGUE = (
    entry(
        "grouped_matmul",
        multiply_blocks,
        {"T": 8192, "K": 1024, "S": 16384, "G": 8, "N": 1024, "B": 520},
        {"T": 512, "K": 128, "S": 512, "G": 8, "N": 512},
        samples=_BLOCKS,
    ),
    entry(
        "grouped_matmul",
        group_weight_gradient,
        {"T": 8192, "K": 1024, "E": 16384, "S": 9, "G": 8, "N": 1024},
        {"T": 512, "K": 128, "E": 512, "G": 8, "N": 512},
        samples=_GROUPS,
    ),
)
