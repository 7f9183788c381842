"""Sparse structures seen from their other side: the elements of each column, where those of each row are known.

Gradients of sparse products add up over columns. With the elements of each column in one fixed order every result is
added by one program, without atomics: the same bits every time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from jaxtyping import Integer

from .arrays import AllocationCheck, Array, as_int64, as_signed
from .declared import Size, checked
from .replay import constant


@dataclass(frozen=True)
class Transpose:
    """Elements in the order of their columns: those of column k are at `start[k]` up to `start[k + 1]`.

    `start`: one more than columns. `row`: the row of each element, in this order. `order`: its number before.
    """

    start: Array
    row: Array
    order: Array


@checked
def csr_transpose(start: Integer[Array, "R+1"], column: Integer[Array, "E"], columns: Size) -> Transpose:
    """Of rows that begin at `start`, R + 1 integers, and whose elements have these columns, E integers below `columns`.

    Built once for a structure, it serves every gradient of `csr_matmul`, `block_matmul` (columns of blocks) and
    `embedding_bag` (bags are rows, what they hold is columns). What is in no row is in no column either.
    """
    row, column = rows_of(start, column.shape[0]), as_signed(column)
    inside = (row >= 0) & (row < start.shape[0] - 1)
    return grouped(column * inside + columns * ~inside, row, columns)


@checked
def ell_transpose(column: Integer[Array, "R L"], columns: Size) -> Transpose:
    """Of rows that all have as many elements, `column`: R × L integers below `columns`; for `ell_matmul`."""
    column = as_signed(column)
    every = count_up(column, column.shape[0])[:, None] + 0 * column
    return grouped(column.reshape(-1), every.reshape(-1), columns)


@checked
def pair_transposes(
    row: Integer[Array, "E"], column: Integer[Array, "E"], rows: Size, columns: Size
) -> tuple[Transpose, Transpose]:
    """Of elements in any order: by their rows, with the column of each in the place of `row`, and by their columns."""
    row, column = as_signed(row), as_signed(column)
    return grouped(row, column, rows), grouped(column, row, columns)


def grouped(group: Array, row: Array, groups: int) -> Transpose:
    """Elements in the order of their group, those of one in the order that they have; groups beyond `groups` last."""
    order = group.argsort(kind="stable") if isinstance(group, np.ndarray) else group.argsort(stable=True)
    return Transpose(_searched(group[order], count_up(group, groups + 1), "left"), row[order], order)


def rows_of(start: Array, elements: int) -> Array:
    """The row of each element of rows that begin at `start`; -1 before the first row, and R after the last."""
    start = as_signed(start)
    if isinstance(start, np.ndarray):
        return np.bincount(start, minlength=elements + 1)[:elements].cumsum() - 1
    if not start.is_cuda:  # where counting waits for nothing
        return start.bincount(minlength=elements + 1)[:elements].cumsum(0) - 1
    return _searched(start, count_up(start, elements), "right") - 1


def count_up(like: Array, count: int) -> Array:
    """0, 1, 2, …, of int64, with the library and device of another array."""
    with AllocationCheck((count,)):
        if isinstance(like, np.ndarray):
            return np.arange(count)
        import torch

        return constant(torch.arange(count, device=like.device))


def _searched(places: Array, wanted: Array, side: str) -> Array:
    places = as_int64(places)
    if isinstance(places, np.ndarray):
        return places.searchsorted(wanted, side)  # type: ignore[call-overload]
    import torch

    return torch.searchsorted(places.contiguous(), wanted, side=side)
