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
WORDS = 0.2
"""Cycles to copy an element that is joined with others to a word for a dot unit. Measured on an Intel server core of
2023 with matmuls of 4, 8 and 16 rows in int8: what none would take."""
WORDS_TURNED = 0.4
"""The same where rows become columns."""
SPLIT_WORDS = 0.3
"""Cycles more where an f16 is split into two words: seven instructions for 16 elements, and twice the stores."""
MASKED_WORDS = 2.4
"""The same in the last blocks of a row, which end beyond it. Measured likewise, with chunks of 12 and of 4 of 1024."""
BLOCK = 16
"""Positions, or words of a row that is turned, which are copied at once, as `apply_plan/packs.py` does."""


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
            words = words_of(loop, at, limits)
            split = False if step.origin is None else words.split.get(step.origin, False)
            in_words = (depth_of(step, words) > 1) | split
            turned = touch.run != at.choices.lanes
            wide = np.where(in_words & ~np.asarray(split), touch.element_bytes, max(4, touch.element_bytes))
            moved = moved + elements * (touch.element_bytes + 2 * wide)
            plain, joined = (TURNED, WORDS_TURNED) if turned else (PACKED, WORDS)
            block = BLOCK * (4 // touch.element_bytes if turned and touch.element_bytes < 4 else 1)
            beyond = sum(_masked(at, axis, block) for axis in touch.axes if axis in loop.axes)
            joining = np.where(split, joined + SPLIT_WORDS, joined) + MASKED_WORDS * beyond
            cycles = cycles + elements * np.where(in_words, joining, plain)
    return moved, cycles


def _masked(at: PlanBatch, axis: str, block: int) -> Numbers:
    """Part of a packed axis, relative to its extent, that is in blocks which end beyond it: rows are padded to whole
    blocks and chunks."""
    extent = max(1, at.extents.get(axis, 1))
    step = np.lcm(np.asarray(at.size(axis)).astype(np.int64), block)
    return (np.ceil(extent / step) * step - extent // block * block) / extent
