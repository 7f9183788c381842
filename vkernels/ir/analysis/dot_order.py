"""In which order a CPU's dot goes through its operands: the lowering follows it, and the cost model counts on it."""

from __future__ import annotations

MOST_ADDRESSES = 8
"""Rows whose addresses general registers hold beside all else. A dot takes so many position by position, and more, each
with an address of its own, row by row."""
MOST_IN_TURN = 4
"""Positions of a chunk that LLVM keeps in turn. Of more it loads some early, and spills: of 12 and 16 everywhere, where
products of 256 take 1.35 times as long on Zen 3, of 8 under masks of rows: products of 64 take 1.26 times as long."""
