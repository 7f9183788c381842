"""Threads of a warp that load the same elements of shared memory get them together."""

from __future__ import annotations

import pytest

from vkernels.compiler.binaries.shared_reads import distinct_part

LAYOUT = """
#blocked = #ttg.blocked<{sizePerThread = [4, 4], threadsPerWarp = [2, 16], warpsPerCTA = [4, 1], order = [1, 0]}>
"""
DOT = (
    "    %3 = tt.dot %0, %1, %2 : tensor<64x16xf32, #ttg.dot_op<{opIdx = 0, parent = LAYOUT}>> * "
    "tensor<16x64xf32, #ttg.dot_op<{opIdx = 1, parent = LAYOUT}>> -> tensor<64x64xf32, LAYOUT>\n"
)


def test_each_row_and_column_counts_once_in_a_warp() -> None:
    """A thread has 8 rows and 4 columns; a warp 16 rows and 64 columns, of 32 times 12 that its threads load."""
    assert distinct_part(LAYOUT + DOT.replace("LAYOUT", "#blocked")) == pytest.approx((16 + 64) / (32 * 12))


def test_other_dots_count_as_they_load() -> None:
    assert distinct_part(LAYOUT + DOT.replace("LAYOUT", "#mma")) == 1.0
    assert distinct_part("") == 1.0
