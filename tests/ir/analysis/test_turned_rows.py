"""Blocks that rows are cut into, to be turned: they hold each element, and nothing beyond a row where they need not."""

from __future__ import annotations

import pytest

from vkernels.ir.analysis.turned_rows import LEAST_TURNED, row_blocks, shuffles_of_rows

LANES = (2, 4, 8, 16, 32, 64)


@pytest.mark.parametrize("lanes", LANES)
def test_blocks_hold_each_element_of_a_row(lanes: int) -> None:
    for rows in range(LEAST_TURNED, 3 * lanes + 2):
        blocks = row_blocks(rows, lanes)
        assert {n for begin, size in blocks for n in range(begin, begin + size)} >= {*range(rows)}, rows
        assert all(size & (size - 1) == 0 and size <= lanes for _, size in blocks), blocks
        assert len({begin for begin, _ in blocks}) == len(blocks), blocks


@pytest.mark.parametrize("lanes", LANES)
def test_a_block_is_larger_than_its_row_only_alone(lanes: int) -> None:
    """Others begin earlier, so that they need no mask."""
    for rows in range(LEAST_TURNED, 3 * lanes + 2):
        blocks = row_blocks(rows, lanes)
        assert len(blocks) == 1 or all(begin + size <= rows for begin, size in blocks), (rows, blocks)


def test_short_rows_are_not_cut() -> None:
    assert row_blocks(1, 16) == ()
    assert row_blocks(8, 1) == ()


@pytest.mark.parametrize("lanes", LANES)
def test_no_block_alone_would_take_fewer_shuffles(lanes: int) -> None:
    for rows in range(LEAST_TURNED, lanes + 1):
        size = 1 << (rows - 1).bit_length()
        assert shuffles_of_rows(rows, lanes) <= shuffles_of_rows(size, lanes), rows
