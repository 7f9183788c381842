"""Which rows a CPU loads as vectors and turns, where lanes lie across them: for the lowering, and for its model."""

from __future__ import annotations

from functools import lru_cache
from math import log2

LEAST_TURNED = 2
"""Elements of a row, at least: shorter ones are gathered."""
MOST_NEAR = 4
"""Elements from one lane to the next up to which vectors are loaded along the lanes, and their lanes moved."""
GATHERED = 4
"""Bytes of the smallest elements that processors gather and scatter. LLVM takes lanes of smaller ones one by one, and
each address out of a vector of addresses first, which takes longer than all else."""


@lru_cache(maxsize=4096)
def row_blocks(rows: int, lanes: int) -> tuple[tuple[int, int], ...]:
    """The blocks, as (first element, size), that turn rows of so many elements for registers of `lanes`: in order, each
    size a power of two. Whole registers first; then what takes the fewest shuffles. The last block begins within the
    one before where it is larger than what is left, or is larger than the row. None where rows are too short."""
    if rows < LEAST_TURNED or lanes < LEAST_TURNED:
        return ()
    begin = rows // lanes * lanes
    sizes = _sizes(rows - begin, lanes)
    found = [(first, lanes) for first in range(0, begin, lanes)]
    for size in sizes:
        found.append((max(0, min(begin, rows - size)), size))
        begin += size
    return tuple(found)


def _sizes(rest: int, lanes: int) -> tuple[int, ...]:
    """The sizes of blocks for the end of a row, shorter than the lanes, that take the fewest shuffles."""
    if rest <= 0:
        return ()
    size = max(LEAST_TURNED, 1 << (rest - 1).bit_length())
    half = size // 2
    if half < LEAST_TURNED or rest <= half:
        return (size,)
    return min(
        ((size,), (half, *_sizes(rest - half, lanes))), key=lambda sizes: sum(_shuffles(n, lanes) for n in sizes)
    )


def shuffles_of_rows(rows: int, lanes: int) -> float:
    """The shuffles that turn rows of so many elements for registers of `lanes`, one row for each lane."""
    return sum(_shuffles(size, lanes) for _, size in row_blocks(rows, lanes))


def _shuffles(size: int, lanes: int) -> float:
    """Of a block, which is joined first or split last."""
    return size * log2(size) + lanes - size
