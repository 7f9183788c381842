"""What packing operands costs a CPU."""

from __future__ import annotations

import numpy as np

from ..limits import Limits
from .cpu_words import depth_of, words_of
from .plan_batch import Numbers, PlanBatch

PACKED = 2.5
"""Cycles to copy an element of a packed operand: short rows of far panels, fetched and written."""
TURNED = 3.5
"""The same where rows become columns."""
WORDS = 0.3
"""Cycles to copy an element that is joined with others to a word for a dot unit. Measured on an Intel server core of
2023 with matmuls of 8 rows in int8."""
WORDS_TURNED = 0.5
"""The same where rows become columns."""


def packing(at: PlanBatch, limits: Limits) -> tuple[Numbers, Numbers]:
    """Bytes that packing moves, and cycles of its instructions."""
    moved: Numbers = 0.0
    cycles: Numbers = 0.0
    for name in at.choices.packs:
        found = next(
            ((loop, s, s.touch) for loop in at.loops for s in loop.steps if s.touch and s.touch.place == name), None
        )
        if found is not None:
            loop, step, touch = found
            elements = np.prod([max(1, at.extents.get(axis, 1)) for axis in touch.axes], dtype=float)
            in_words = depth_of(step, words_of(loop, at, limits)) > 1
            turned = touch.run != at.choices.lanes
            wide = np.where(in_words, touch.element_bytes, max(4, touch.element_bytes))
            moved = moved + elements * (touch.element_bytes + 2 * wide)
            plain, joined = (TURNED, WORDS_TURNED) if turned else (PACKED, WORDS)
            cycles = cycles + elements * np.where(in_words, joined, plain)
    return moved, cycles
