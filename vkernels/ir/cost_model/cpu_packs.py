"""What packing operands costs a CPU."""

from __future__ import annotations

import numpy as np

from .plan_batch import Numbers, PlanBatch

PACKED = 2.5
"""Cycles to copy an element of a packed operand: short rows of far panels, fetched and written."""
TURNED = 3.5
"""The same where rows become columns."""


def packing(at: PlanBatch) -> tuple[Numbers, Numbers]:
    """Bytes that packing moves, and cycles of its instructions."""
    moved: Numbers = 0.0
    cycles: Numbers = 0.0
    for name in at.choices.packs:
        touch = next((s.touch for loop in at.loops for s in loop.steps if s.touch and s.touch.place == name), None)
        if touch is not None:
            elements = np.prod([max(1, at.extents.get(axis, 1)) for axis in touch.axes], dtype=float)
            moved = moved + elements * (touch.element_bytes + 2 * max(4, touch.element_bytes))
            cycles = cycles + elements * (TURNED if touch.run != at.choices.lanes else PACKED)
    return moved, cycles
