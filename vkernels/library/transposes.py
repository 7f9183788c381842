"""Transposes of sparse structures: the elements of each column, from those of each row.

Gradients of sparse products sum over columns. With the elements of each column in a fixed order, one program sums each
result, without atomics, so results are reproducible.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Integer

from .arrays import AllocationCheck, Array, as_int64, as_signed
from .call_arguments import Bundle
from .declared import Size, checked
from .replay import new_constant


@dataclass(frozen=True)
class Transpose(Bundle):
    """Elements sorted by column: those of column k are at `start[k] : start[k + 1]`.

    `start`: columns + 1 integers. `row`: the row of each element, in this order. `order`: its original number.
    `row_of`: the row of each element in the original order, if the structure is in CSR form.
    """

    start: Array
    row: Array
    order: Array
    row_of: Array | None = None


@checked
def csr_transpose(start: Integer[Array, "R+1"], column: Integer[Array, "E"], columns: Size) -> Transpose:
    """The transpose of CSR rows: `start`, R + 1 integers, and `column`, E integers below `columns`.

    It can be reused for all gradients of `csr_matmul`, `block_matmul` (columns of blocks) and `embedding_bag` (bags are
    rows, their indices columns) with this structure. Elements in no row are in no column.
    """
    row, column = rows_of(start, column.shape[0]), as_signed(column)
    inside = (row >= 0) & (row < start.shape[0] - 1)
    return replace(grouped(column * inside + columns * ~inside, row, columns), row_of=row)


@checked
def ell_transpose(column: Integer[Array, "R L"], columns: Size) -> Transpose:
    """The transpose of ELL rows, `column`: R × L integers below `columns`; for `ell_matmul`."""
    column = as_signed(column)
    every = count_up(column, column.shape[0])[:, None] + 0 * column
    return grouped(column.reshape(-1), every.reshape(-1), columns)


@checked
def pair_transposes(
    row: Integer[Array, "E"], column: Integer[Array, "E"], rows: Size, columns: Size
) -> tuple[Transpose, Transpose]:
    """Elements in any order, sorted by row, with their columns in place of `row`, and sorted by column."""
    row, column = as_signed(row), as_signed(column)
    return grouped(row, column, rows), grouped(column, row, columns)


def grouped(group: Array, row: Array, groups: int) -> Transpose:
    """Elements sorted stably by group; those of groups from `groups` on come last."""
    order = group.argsort(kind="stable") if isinstance(group, np.ndarray) else group.argsort(stable=True)
    return Transpose(_searched(group[order], count_up(group, groups + 1), "left"), row[order], order)


def rows_of(start: Array, elements: int) -> Array:
    """The row of each element, from starts of rows; -1 before the first row, and R after the last."""
    start = as_signed(start)
    if isinstance(start, np.ndarray):
        return np.bincount(start, minlength=elements + 1)[:elements].cumsum() - 1
    if not start.is_cuda:  # on a CPU, counting needs no synchronisation
        return start.bincount(minlength=elements + 1)[:elements].cumsum(0) - 1
    return _searched(start, count_up(start, elements), "right") - 1


def count_up(like: Array, count: int) -> Array:
    """0, 1, 2, …, of int64, with the library and device of another array."""
    with AllocationCheck((count,)):
        if isinstance(like, np.ndarray):
            return np.arange(count)
        import torch

        return new_constant(like.device, lambda: torch.arange(count, device=like.device))


def _searched(places: Array, wanted: Array, side: str) -> Array:
    places = as_int64(places)
    if isinstance(places, np.ndarray):
        return places.searchsorted(wanted, side)  # type: ignore[call-overload]
    import torch

    return torch.searchsorted(places.contiguous(), wanted, side=side)
