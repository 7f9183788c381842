"""What packing operands costs a CPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..limits import Limits
from .cache_sets import bytes_apart
from .core_rates import cpu_rates
from .cpu_words import Words, depth_of, words_of
from .loops import Loop, LoopAccess, LoopStep
from .plan_batch import Numbers, PlanBatch

TURNS = 4.0
"""Shuffles of a register of words that is turned with 15 others: they are counted."""
SPLIT_INSTRUCTIONS = 7.0
"""Instructions that split a register of f16 into two of words, beside twice the stores: they are counted."""
MASKED_TIMES = 12.0
"""How much longer an element takes in the last blocks of a row, which end beyond it: these are copied one by one, not
16 at once. What one takes in a block is measured."""
BLOCK = 16
"""Positions, or words of a row that is turned, which are copied at once, as `apply_plan/packs.py` does."""


def packing(at: PlanBatch, limits: Limits) -> tuple[Numbers, Numbers]:
    """Bytes that packing moves, and cycles of its instructions."""
    moved: Numbers = 0.0
    cycles: Numbers = 0.0
    core, vectors = limits.core_costs, cpu_rates(limits).vectors
    for loop, step, touch, words in _packs(at, limits):
        elements = np.prod([max(1, at.extents.get(axis, 1)) for axis in touch.axes], dtype=float)
        split = False if step.origin is None else words.split.get(step.origin, False)
        in_words = (depth_of(step, words) > 1) | split
        turned = touch.nearest is None or touch.nearest[0] != at.choices.lanes
        wide = np.where(in_words & ~np.asarray(split), touch.element_bytes, max(4, touch.element_bytes))
        moved = moved + elements * (bytes_apart(touch) + 2 * wide)
        plain = core.packed_turned if turned else core.packed
        lanes = limits.register_bytes / 4
        word = core.worded + (TURNS * core.shuffled / lanes if turned else 0.0)
        joined = word / max(1, 4 // touch.element_bytes)
        halves = (SPLIT_INSTRUCTIONS / vectors + 1 / core.stores) / lanes
        block = BLOCK * (4 // touch.element_bytes if turned and touch.element_bytes < 4 else 1)
        beyond = sum(_masked(at, axis, block) for axis in touch.axes if axis in loop.axes)
        joining = np.where(split, joined + halves, joined) + MASKED_TIMES * joined * beyond
        copied = np.prod([_padded(at, axis, block) for axis in touch.axes if axis in loop.axes], axis=0)
        cycles = cycles + elements * np.where(in_words, joining, plain * copied)
    return moved, cycles


def _packs(at: PlanBatch, limits: Limits) -> Iterator[tuple[Loop, LoopStep, LoopAccess, Words]]:
    """A load of each pack: one for each index of a packed tensor, and for loads of it that dots take as words."""
    met = set()
    for loop in at.loops:
        for step, touch in loop.touches:
            if touch.place in at.choices.packs:
                words = words_of(loop, at, limits)
                pack = touch.place, touch.index, step.origin in words.depths
                if pack not in met:
                    met.add(pack)
                    yield loop, step, touch, words


def _masked(at: PlanBatch, axis: str, block: int) -> Numbers:
    """Part of a packed axis, relative to its extent, that is in blocks which end beyond it."""
    extent = max(1, at.extents.get(axis, 1))
    return _padded(at, axis, block) - extent // block * block / extent


def _padded(at: PlanBatch, axis: str, block: int) -> Numbers:
    """A packed axis with its padding to whole blocks that hold all chunks, relative to its extent."""
    extent, size = max(1, at.extents.get(axis, 1)), np.maximum(1, np.asarray(at.size(axis)))
    return np.ceil(np.ceil(extent / size) * size / block) * block / extent
