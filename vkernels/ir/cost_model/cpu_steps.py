"""Cycles that a step of a CPU's loop takes: its arithmetic, its accesses, and what nothing hides."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

import numpy as np

from ..analysis.dot_order import MOST_ADDRESSES
from ..analysis.turned_rows import GATHERED, row_blocks, shuffles_of_rows
from ..core_costs import CoreCosts
from ..limits import Limits
from .atomics import update_cycles
from .core_rates import cpu_rates
from .cpu_registers import EXPANDED, slots
from .cpu_rows import cycles_of_hops
from .cpu_words import Words, depth_of, operations_of, part_extended
from .loops import LINE, Loop, LoopAccess, LoopStep, executed
from .plan_batch import Numbers, PlanBatch

TOGETHER = 0.35
"""Cycles of each line of a row found by an index beyond level 2, for each row beyond two that are requested at once:
neighbours often request the same rows, and while they wait for one the core looks less far ahead for others. Typed in
from one machine; plans are the same with half and twice as much."""
TESTED = 4.0
"""Cycles to test whether a chunk's indices are contiguous beside a division of scalars: instructions counted."""
BROKEN = 4.0
"""Cycles of each register in a chunk with a break: another masked load, its mask, and a selection. Counted: code has
the same instructions on all processors."""
SELECTED = 1.0
"""Cycles of one element, for all lanes, that may be beyond the end of a tile axis or of the tensor: its address, or
that of a 0. Counted in a convolution with outputs along the lanes: three instructions an element."""
EXTENDED = 3.0
"""Operations of one f16 for all lanes beside its extension: it is put into a register, extended by two instructions,
and repeated. Counted in attention, as are the next."""
ROW, EXTENDED_IN_ROW = 4, 0.5
"""Neighbours in a row of so many are extended together, which takes less, and each is repeated from where it is."""
CLEARED = 1.0
"""Operations of one bf16 for all lanes beside its extension: a load repeats its bits in both halves of each word, and
the lower halves are cleared."""


@dataclass(frozen=True)
class StepCycles:
    """Cycles of steps: of arithmetic, loads and stores, each on its port, and what nothing hides."""

    arithmetic: Numbers = 0.0
    loads: Numbers = 0.0
    stores: Numbers = 0.0
    hops: Numbers = 0.0

    def plus(self, other: StepCycles, times: Numbers) -> StepCycles:
        return StepCycles(
            _plus(self.arithmetic, other.arithmetic, times), _plus(self.loads, other.loads, times),
            _plus(self.stores, other.stores, times), _plus(self.hops, other.hops, times),
        )  # fmt: skip


def _plus(total: Numbers, more: Numbers, times: Numbers) -> Numbers:
    """A sum; most parts of most steps are 0."""
    return total if type(more) is float and more == 0.0 else total + times * more


def step_cycles(step: LoopStep, loop: Loop, at: PlanBatch, limits: Limits, width: int, words: Words) -> StepCycles:
    """Of a step once. `words`: see `words_of`."""
    touch, choices, core = step.touch, at.choices, limits.core_costs
    arithmetic: Numbers = 0.0
    if step.is_dot or step.operations:
        arithmetic = slots(step.axes, at, width) * operations_of(step, words)
    if step.scans:
        scanned = core.doubled * np.log2(max(1, width)) * cpu_rates(limits).vectors
        arithmetic = arithmetic + slots(step.axes, at, width) * (scanned if step.reduced == choices.lanes else 0)
    elif step.completes or step.reduced in choices.held:
        arithmetic = arithmetic + across(
            step.axes, step.reduced or "", at, width, core.across * cpu_rates(limits).vectors
        )
    if touch is None:
        return StepCycles(arithmetic)
    if touch.atomic:
        return StepCycles(arithmetic, hops=update_cycles(step, at, width, limits))
    if choices.lanes in step.axes and loop.has_dots and _is_narrow(step, at):
        widened = max(0.0, core.widened * cpu_rates(limits).vectors - 1)  # one operation is counted anyway
        arithmetic = arithmetic + slots(step.axes, at, width) * widened * part_extended(step, words)
    if choices.lanes not in step.axes and _is_narrow(step, at):
        arithmetic = arithmetic + _extended(touch, step, at) * part_extended(step, words) * at.tile(step.axes)
    cost = _accesses(step, at, width, core) / depth_of(step, words)
    beside: Numbers = 0.0
    if _are_apart(step, at):  # what takes the place of arithmetic
        cycles = cost / (core.stores if touch.writes else core.loads)
        beside = core.apart_alone * cycles * cpu_rates(limits).vectors
        if _are_moved_alone(touch):
            beside = np.maximum(beside, at.tile(step.axes))  # each is shuffled
    if (rows := turned_rows(step, at, width)) is not None:
        blocks, shuffles = _blocks(rows, width), _shuffles(rows, width)
        beside = np.where(blocks > 0, slots(step.axes, at, width) * shuffles / rows, beside)
        cost = np.where(blocks > 0, at.tile(step.axes) * blocks / rows, cost)
    arithmetic = _plus(arithmetic, beside, 1)
    hops = core.crossed * _splits(step, at, width) + _selected(step, loop, at) / depth_of(step, words)
    hops = hops + cycles_of_hops(step, loop, at, limits) + _waited(step, at, limits)
    hops = hops + (TESTED + core.divided if touch.breaks else 0.0)
    if touch.writes:
        past = core.past_straight if _is_entwined(loop) else core.past_store
        return StepCycles(arithmetic, stores=cost, hops=hops + (past * cost if touch.place in choices.streams else 0.0))
    return StepCycles(arithmetic, loads=cost, hops=hops)


def _extended(touch: LoopAccess, step: LoopStep, at: PlanBatch) -> Numbers:
    """Operations of an element for all lanes, of two bytes, beside its extension."""
    if touch.is_bf16:
        return CLEARED
    together = at.size(touch.run) if touch.run in step.axes else 1
    return np.where(np.asarray(together) >= ROW, EXTENDED_IN_ROW, EXTENDED)


def _is_entwined(loop: Loop) -> bool:
    """Whether a loop's instructions are interleaved over many iterations, or straight."""
    return not loop.axes or any(step.scans or step.operations >= EXPANDED for step in loop.steps)


def in_tails(step: LoopStep, loop: Loop, at: PlanBatch, width: int) -> Numbers:
    """Registers that a step loads or stores in the last, partly empty chunk along the lanes, or at the end of an axis
    that takes more whole registers at once than it has elements for."""
    if at.choices.lanes is None or at.choices.lanes not in step.axes:
        return 0.0
    if step.touch is not None and step.touch.guarded:  # masked anyway, by a mask that its loop does not change
        return 0.0
    others = [axis for axis in (*executed(loop, step), *step.ranges) if axis != at.choices.lanes]
    if at.choices.lanes not in loop.axes:  # one masked register at the end of all
        rows = at.tile(axis for axis in step.axes if axis != at.choices.lanes)
        return (at.size(at.choices.lanes) > at.extents.get(at.choices.lanes, 1)) * at.all_trips(others) * rows
    ragged = at.extents.get(at.choices.lanes, 1) % at.size(at.choices.lanes) > 0
    return ragged * at.all_trips(others) * slots(step.axes, at, width)


def broken_chunks(step: LoopStep, loop: Loop, at: PlanBatch, width: int) -> Numbers:
    """Cycles of the chunks that have breaks, all of those along the lanes at most."""
    lanes = at.choices.lanes
    if step.touch is None or lanes not in step.axes:
        return 0.0
    chunks = at.trips(lanes)
    broken = np.minimum(1, step.touch.breaks / np.maximum(1, chunks))
    return broken * at.all_trips(executed(loop, step)) * BROKEN * slots(step.axes, at, width) * step.touch.breaks


def _splits(step: LoopStep, at: PlanBatch, width: int) -> Numbers:
    """Registers of a load or store that cross a line: where rows begin at any address, mostly wide registers."""
    touch = step.touch
    if touch is None or touch.run != at.choices.lanes or touch.home is not None or touch.place in at.choices.packs:
        return 0.0
    bytes_ = width * touch.element_bytes
    return slots(step.axes, at, width) * max(0.0, bytes_ - min(touch.alignment, bytes_)) / LINE


def _waited(step: LoopStep, at: PlanBatch, limits: Limits) -> Numbers:
    """Cycles lost where an iteration of a range finds several rows by indices, and they are beyond level 2."""
    touch = step.touch
    if touch is None or touch.run is None or touch.run != at.choices.lanes or touch.writes or not touch.scattered:
        return 0.0
    if not step.ranges:
        return 0.0
    rows, row = at.tile(touch.found), at.size(touch.run) * touch.element_bytes
    table: Numbers = row * (2 if touch.place in at.choices.copies else 1)
    for axis in touch.found:
        table = table * max(1, at.extents.get(axis, 1))
    lines = rows * np.maximum(1, row / LINE)
    return np.where(table > limits.shared, TOGETHER * lines * np.maximum(0, rows - 2), 0)


def _selected(step: LoopStep, loop: Loop, at: PlanBatch) -> Numbers:
    """Cycles of elements for all lanes that may be beyond the tensor, or that belong to the programs at the end of a
    tile axis, which are masked along all axes. A loop that carries sums of dots has a version for tiles that
    are all inside (`version-loops`)."""
    touch = step.touch
    if touch is None or touch.home is not None or touch.place in at.choices.packs or at.choices.lanes in step.axes:
        return 0.0
    ragged = reduce(np.logical_or, (_is_ragged(axis, at) for axis in at.choices.order if axis in touch.axes), False)
    part: Numbers = 0.0 if ragged is False else ragged * _masked_part(at)
    if touch.guarded:
        is_versioned = loop.has_dots and (loop.reduced if loop.axes else step.ranges)
        part = np.minimum(1, part + _at_boundary(touch, at)) if is_versioned else 1.0
    return SELECTED * part * at.tile(step.axes)


def _at_boundary(touch: LoopAccess, at: PlanBatch) -> Numbers:
    """The part of the tiles that may go beyond a tensor: along each axis those at its ends, in some of the steps
    of a range: as many as half a tile always."""
    part: Numbers = 0.0 if touch.beyond else 1.0
    for axis in touch.beyond:
        part = part + 0.5 / np.maximum(1, at.trips(axis))
    return np.minimum(1, part)


def _is_ragged(axis: str, at: PlanBatch) -> Numbers:
    """Whether the last program along a tile axis has fewer positions than others."""
    size = at.size(axis)
    return (at.extents.get(axis, 1) % size > 0) & (size > 1)


def _masked_part(at: PlanBatch) -> Numbers:
    """The part of the programs that are at the end of a tile axis, with fewer positions than others."""
    known, key = at.terms.loops, ("masked part", at.choices.order)
    if key not in known:
        full: Numbers = 1.0
        for axis in at.choices.order:
            extent, size = at.extents.get(axis, 1), at.size(axis)
            full = full * (extent // size) / np.maximum(1, np.ceil(extent / size))
        known[key] = 1 - full
    return known[key]


def _is_narrow(step: LoopStep, at: PlanBatch) -> bool:
    """Whether a step loads floats of two bytes. Packed operands and homes are wide."""
    touch = step.touch
    if touch is None or touch.writes or touch.element_bytes != 2 or not touch.is_float:
        return False
    return touch.home is None and touch.place not in at.choices.packs


def _accesses(step: LoopStep, at: PlanBatch, width: int, core: CoreCosts) -> Numbers:
    """Registers that are loaded or stored. Elements count for as many as take as long."""
    touch = step.touch
    assert touch is not None
    lanes = at.choices.lanes
    if touch.apart is not None and _are_near(touch, at) and _lie_across(step, at):  # vectors, and moves of lanes
        return slots(step.axes, at, width) * max(1, touch.element_bytes // 4) * 2 * touch.apart[1]
    if _are_apart(step, at):
        alone = _are_moved_alone(touch)
        if touch.writes:
            return at.tile(step.axes) * core.stores * (core.store_apart_narrow if alone else core.store_apart)
        if touch.scattered:
            return core.loads * (at.tile(step.axes) * core.found + at.tile(touch.found) * core.index)
        return at.tile(step.axes) * core.loads * (core.apart_narrow if alone else core.apart)
    if lanes not in touch.axes and touch.home is None and not _is_packed(touch, at):
        rows = at.tile(axis for axis in touch.axes if axis != touch.run)
        return at.tile(step.axes) + np.maximum(0, rows - MOST_ADDRESSES)
    narrow = max(1, touch.element_bytes // 4)
    return slots(step.axes, at, width) * narrow


def _is_packed(touch: LoopAccess, at: PlanBatch) -> bool:
    return touch.is_laid_out or touch.place in at.choices.packs


def _are_near(touch: LoopAccess, at: PlanBatch) -> bool:
    """Whether whole vectors hold the lanes of an access, a few elements apart."""
    return touch.apart is not None and touch.apart[0] == at.choices.lanes


def _lie_across(step: LoopStep, at: PlanBatch) -> bool:
    """Whether the lanes of a step's vectors are not side by side in memory."""
    touch, lanes = step.touch, at.choices.lanes
    if touch is None or lanes not in step.axes or lanes not in touch.axes:
        return False
    return touch.run != lanes and not _is_packed(touch, at)


def _are_apart(step: LoopStep, at: PlanBatch) -> bool:
    """Whether each lane of a step's vectors is loaded or stored by itself."""
    return step.touch is not None and not _are_near(step.touch, at) and _lie_across(step, at)


def _are_moved_alone(touch: LoopAccess) -> bool:
    """Whether no instruction takes several elements from places apart: they are too small for gathers and scatters."""
    return touch.element_bytes < GATHERED and not touch.scattered


def turned_rows(step: LoopStep, at: PlanBatch, width: int) -> Numbers | None:
    """Elements of the rows that are loaded or stored and turned, where lanes lie across rows, as `turned.py` does it;
    none where there are none."""
    touch, lanes = step.touch, at.choices.lanes
    if touch is None or lanes not in touch.axes or touch.run in (None, lanes) or touch.run not in step.axes:
        return None
    if touch.is_laid_out or touch.place in at.choices.packs or touch.scattered or touch.guarded or touch.apart:
        return None
    return np.asarray(at.size(touch.run)).astype(np.int64)


def _blocks(rows: Numbers, width: int) -> Numbers:
    """Blocks that a row is cut into; 0 where rows are not turned."""
    return np.vectorize(lambda length: len(row_blocks(int(length), width)), otypes=[float])(rows)


def _shuffles(rows: Numbers, width: int) -> Numbers:
    """Shuffles of the blocks that turn a row of each lane."""
    return np.vectorize(lambda length: shuffles_of_rows(int(length), width), otypes=[float])(rows)


def across(axes: tuple[str, ...], reduced: str, at: PlanBatch, width: int, halving: float) -> Numbers:
    """Cycles of reducing a tile along an axis: its registers to one, then the elements of that one, for every row.
    `halving`: cycles of each halving of a register."""
    if reduced != at.choices.lanes:
        return at.tile(axes) / width
    along = np.minimum(width, at.size(reduced))
    return at.tile(axis for axis in axes if axis != reduced) * halving * np.ceil(np.log2(np.maximum(1, along)))
