"""Products of which every row has a matrix of its own among a few, and mixtures of experts made of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, Int, Integer

import vkernels as vk

from .activations import activated
from .annotations import Activation, Result
from .arrays import Array, as_signed, check_shape, constant_like, empty_like
from .declared import checked
from .indices import check_indices
from .replay import replayed
from .sparse_products import ell_times_dense
from .transposes import count_up, grouped

BLOCK = 32
"""Rows that are multiplied at a time; of every group the last ones may be fewer."""


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
    `start`: G + 1 integers that do not fall, from 0 to S, read on the host. `bias`: G × N, or none. `row`: S integers,
    the rows of x in the order of groups; x's own where there is none. `checked`: read `row` first. Returns `out`, of
    any of these dtypes, or a new S × N array like x.
    Raises `ArgumentError` for other dtypes, shapes that do not go together, and wrong indices.
    """
    rows = x.shape[0] if row is None else row.shape[0]
    ends = tuple(start.tolist())
    if ends[0] != 0 or ends[-1] != rows or any(end < begin for begin, end in pairwise(ends)):
        expected = f"{weight.shape[0] + 1} starts that do not fall, from 0 to {rows}"
        raise vk.ArgumentError(f"grouped_matmul: start is {list(ends)}, expected {expected}")
    if row is not None and checked:
        check_indices("grouped_matmul", "row", row, x.shape[0])
    if out is not None:
        check_shape("grouped_matmul", "out", out, (rows, weight.shape[2]))
    blocks, rows_in_order = _blocks_and_rows(ends, None if isinstance(start, np.ndarray) else start.device)
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
    """Each block's group, first row and where that group ends; and all rows in order. `device`: torch's, or None."""
    blocks = [
        (group, first, end) for group, (begin, end) in enumerate(pairwise(ends)) for first in range(begin, end, BLOCK)
    ]
    arrays = np.array(blocks, np.int64).reshape(-1, 3).T.copy(), np.arange(ends[-1], dtype=np.int64)
    if device is None:
        return arrays
    import torch

    table, rows = (torch.from_numpy(array).to(device) for array in arrays)
    return table, rows


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

    `x`: T × K tokens; `expert`: T × C integers, each token's experts; `gate`: T × C, what they count; `w1`: G × K × H
    and `w2`: G × H × N, one matrix an expert, `b1`: G × H and `b2`: G × N, or none; of any strides and one dtype: f64,
    f32, f16 or bf16. No token is dropped, however many an expert gets. `checked`: read `expert` first; without,
    what it says must be right. Returns a new T × N array like x.
    Raises `ArgumentError` for other dtypes, shapes that do not go together, and experts that there are not.
    """
    routes = route("mixture_of_experts", expert, w1.shape[0], checked)
    hidden = grouped_matmul(x, w1, routes.start, b1, activation, routes.token, checked=False)
    results = grouped_matmul(hidden, w2, routes.start, b2)
    out = empty_like(x, (x.shape[0], w2.shape[2]))
    ell_times_dense(routes.place, gate, results, constant_like(gate, 0.0, (x.shape[0],)), out)
    return out


@dataclass(frozen=True)
class Routes:
    """Every token's choices in the order of experts.

    `start`: where each expert's begin, and where the last ends. `order`: the number of each choice, `token` its token.
    `place`: T × C, where each choice stands in this order.
    """

    start: Array
    order: Array
    token: Array
    place: Array


def route(function: str, expert: Array, experts: int, checked: bool) -> Routes:
    """The choices of tokens, T × C, in the order of so many experts; raises `ArgumentError` for wrong ones."""
    if checked:
        check_indices(function, "expert", expert, experts)
    choices = max(1, expert.shape[1])
    flat = as_signed(expert).reshape(-1)
    routes = grouped(flat, count_up(flat, flat.shape[0]) // choices, experts)
    place = routes.order.argsort().reshape(expert.shape)
    return Routes(routes.start, routes.order, routes.row, place)
