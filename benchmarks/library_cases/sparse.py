"""Cases of sparse products, segments and bags."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from vkernels.library import block_matmul, csr_matmul, ell_matmul, embedding_bag, sampled_matmul, segment_sum
from vkernels.library.segments import embedding_bag_backward, segment_sum_backward
from vkernels.library.sparse_products_gradients import csr_matmul_backward
from vkernels.library.transposes import csr_transpose

from .case import Case, Cases, Way, bytes_of

SHAPES = {"small": (512, 8, 64), "medium": (4096, 16, 64), "large": (32768, 32, 64)}
"""Rows, elements a row on average, columns of what is dense."""

BLOCKS = {"small": (8, 2, 32, 64), "medium": (32, 4, 32, 128), "large": (128, 16, 32, 256)}
"""Rows of blocks, blocks in each, a block's side, columns of what is dense."""


def cases() -> list[Case]:
    found = Cases()
    for size, shape in SHAPES.items():
        _segments(found, size, *shape)
        _rows_of_elements(found, size, *shape)
        _bags(found, size, *shape)
    for size, shape in BLOCKS.items():
        _blocks(found, size, *shape)
    return found.found


def starts(segments: int, mean: int) -> torch.Tensor:
    """Segments of random lengths from 0 to twice the mean."""
    return torch.cat([torch.zeros(1, dtype=torch.int64), torch.randint(0, 2 * mean + 1, (segments,)).cumsum(0)])


def _segments(found: Cases, size: str, rows: int, mean: int, columns: int) -> None:
    start = starts(rows, mean)
    segment = torch.repeat_interleave(torch.arange(rows), start.diff())
    for shape, value in (("", torch.randn(int(start[-1]))), (f"×{columns}", torch.randn(int(start[-1]), columns))):
        found.add(
            "segment_sum", size, f"{rows} of {mean}{shape}", (value,), lambda v: segment_sum(v, start),
            {
                "segment_reduce": Way(lambda v: torch.segment_reduce(v, "sum", offsets=start, axis=0), compiled=False),
                "index_add": lambda v: v.new_zeros((rows, *v.shape[1:])).index_add_(0, segment, v),
            },
            bytes_of(value, start) + bytes_of(value) // max(1, len(value)) * rows,
        )  # fmt: skip
    grad = torch.randn(rows, columns)
    found.add(
        "segment_sum_backward", size, f"{rows} of {mean}×{columns}", (grad,),
        lambda g: segment_sum_backward(g, start, len(segment)),
        {"index_select": lambda g: g[segment]}, bytes_of(grad, start) + 4 * columns * len(segment),
    )  # fmt: skip


def _rows_of_elements(found: Cases, size: str, rows: int, mean: int, columns: int) -> None:
    start = starts(rows, mean)
    elements = int(start[-1])
    column, value, dense = torch.randint(0, rows, (elements,)), torch.randn(elements), torch.randn(rows, columns)
    shape, moved = f"{rows}×{mean}×{columns}", bytes_of(start, column, value, dense, dense)
    csr = torch.sparse_csr_tensor(start, column, value, (rows, rows))
    found.add(
        "csr_matmul", size, shape, (start, column, value, dense), csr_matmul,
        {"sparse csr": Way(lambda a, d: a @ d, (csr, dense), compiled=False)}, moved, 2 * elements * columns,
    )  # fmt: skip
    transpose, grad = csr_transpose(start, column, rows), torch.randn(rows, columns)
    turned = torch.sparse_csr_tensor(transpose.start, transpose.row, value[transpose.order], (rows, rows))
    pattern = torch.sparse_csr_tensor(start, column, torch.zeros(elements), (rows, rows))
    found.add(
        "csr_matmul_backward", size, shape, (grad, value, dense),
        lambda g, v, d: csr_matmul_backward(g, start, column, v, d, transpose=transpose)[:2],
        {
            "sparse csr": Way(
                lambda s, t, g, d: (torch.sparse.sampled_addmm(s, g, d.t(), beta=0.0).values(), t @ g),
                (pattern, turned, grad, dense), compiled=False,
            )
        },
        2 * moved, 4 * elements * columns, exact=lambda g, v, d: _exact_csr_backward(g, v, d, start, column),
    )  # fmt: skip
    column_2, value_2 = torch.randint(0, rows, (rows, mean)), torch.randn(rows, mean)
    even = torch.arange(0, rows * mean + 1, mean)
    ell = torch.sparse_csr_tensor(even, column_2.flatten(), value_2.flatten(), (rows, rows))
    found.add(
        "ell_matmul", size, shape, (column_2, value_2, dense), ell_matmul,
        {
            "sparse csr": Way(lambda a, d: a @ d, (ell, dense), compiled=False),
            "gather": lambda c, v, d: (v[..., None] * d[c]).sum(1),
        },
        bytes_of(column_2, value_2, dense, dense), 2 * rows * mean * columns,
    )  # fmt: skip
    row, a, b = torch.repeat_interleave(torch.arange(rows), start.diff()), torch.randn(rows, columns), dense
    found.add(
        "sampled_matmul", size, shape, (row, column, value, a, b), sampled_matmul,
        {
            "gather": lambda r, c, v, a, b: v * (a[r] * b[c]).sum(-1),
            "sampled_addmm": Way(
                lambda s, v, a, b: torch.sparse.sampled_addmm(s, a, b.t(), beta=0.0).values() * v,
                (csr, value, a, b), compiled=False,
            ),
        },
        bytes_of(row, column, value, a, b, value), 2 * elements * columns,
    )  # fmt: skip


def _exact_csr_backward(grad: Any, value: Any, dense: Any, start: Any, column: Any) -> Any:
    row = torch.repeat_interleave(torch.arange(len(start) - 1), start.diff())
    of_value = (grad[row] * dense[column]).sum(-1)
    return of_value, torch.zeros_like(dense).index_add_(0, column, value[:, None] * grad[row])


def _bags(found: Cases, size: str, rows: int, mean: int, columns: int) -> None:
    start, table = starts(rows, mean), torch.randn(2 * rows, columns)
    index = torch.randint(0, 2 * rows, (int(start[-1]),))
    found.add(
        "embedding_bag", size, f"{rows}×{mean}×{columns}", (table, index, start), embedding_bag,
        {
            "embedding_bag": lambda t, i, s: functional.embedding_bag(
                i, t, s, mode="sum", include_last_offset=True
            ),
        },
        bytes_of(table, index, start) + 4 * rows * columns, len(index) * columns,
    )  # fmt: skip
    grad, transpose = torch.randn(rows, columns), csr_transpose(start, index, len(table))
    bag = torch.repeat_interleave(torch.arange(rows), start.diff())
    found.add(
        "embedding_bag_backward", size, f"{rows}×{mean}×{columns}", (grad, table, index, start),
        lambda g, t, i, s: embedding_bag_backward(g, t, i, s, "sum", transpose),
        {"index_add": Way(lambda g, i, b: g.new_zeros((2 * rows, columns)).index_add_(0, i, g[b]), (grad, index, bag))},
        bytes_of(table, index, start, grad), len(index) * columns,
    )  # fmt: skip


def _blocks(found: Cases, size: str, rows: int, each: int, side: int, columns: int) -> None:
    start = torch.arange(0, rows * each + 1, each)
    column = torch.stack([torch.randperm(rows)[:each].sort().values for _ in range(rows)]).flatten()
    block, dense = torch.randn(rows * each, side, side), torch.randn(rows * side, columns)
    bsr = torch.sparse_bsr_tensor(start, column, block, (rows * side, rows * side))

    def gathered(start: Any, column: Any, block: Any, dense: Any) -> Any:
        taken = dense.view(rows, side, columns)[column].view(rows, each * side, columns)
        return torch.bmm(block.view(rows, each, side, side).transpose(1, 2).reshape(rows, side, -1), taken).view(
            -1, columns
        )

    found.add(
        "block_matmul", size, f"{rows}×{each} of {side}×{side}, ×{columns}", (start, column, block, dense),
        block_matmul, {"gather, bmm": gathered, "sparse bsr": Way(lambda a, d: a @ d, (bsr, dense), compiled=False)},
        bytes_of(start, column, block, dense, dense), 2 * block.numel() * columns,
    )  # fmt: skip
