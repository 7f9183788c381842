"""In which order a CPU's dot goes through its operands: the lowering follows it, and the cost model counts on it."""

from __future__ import annotations

MOST_ADDRESSES = 8
"""Rows whose addresses general registers hold beside all else. A dot takes so many position by position, and more, each
with an address of its own, row by row."""
MOST_IN_TURN = 8
"""Positions of a chunk that LLVM keeps in turn. Of 12 and 16 it loads some early, and spills: counted in products of
256 with rows that are not packed, which take 1.35 times as long as with 8 on Zen 3."""
