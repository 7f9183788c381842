"""Cycles that a CPU loses on rows of memory: to begin them, on too many at once, on lines that nothing prefetches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd

import numpy as np

from ..core_costs import CoreCosts
from ..limits import Limits
from ..word_kinds import MATRIX_SIDE
from .cache_sets import part_lost
from .cpu_words import on_matrices, words_of
from .loops import LINE, Loop, LoopAccess, LoopStep, executed
from .plan_batch import Numbers, PlanBatch, clipped

SHORT = 1024
"""Bytes from a row to the next up to which rows are one stream. Sums of rows of 256 and 512 bytes from level 3 take as
long for 16 rows at once as for one on an Intel server core of 2023, and attention whose keys have up to 1 KiB loses
nothing on them; rows of 4 KiB were measured beside one another on Zen 4. A quarter of a page, where prefetchers end."""
MOST_ROWS = 32
"""Rows beside one another that calibration reads. More were not found to cost more."""
PAGE = 4096
"""Bytes between rows from which on this happens."""
CLOSER = 0.25
"""Part of a hop where rows are closer, but no closer than half a page: every other is on the page of the one before. A
hop is measured."""
MOST_FETCHED = 6
"""Lines of a row that its stores fetch by themselves, before prefetchers go ahead. Measured on an Intel server core of
2023: in rows of 1, 2, 4, 8 and 16 lines a line costs 40, 45, 42, 26 and 7 cycles more than side by side. What a line
costs is measured."""


@dataclass(frozen=True)
class LineCosts:
    """Cycles of `line`s that nothing prefetches, of those `lost` for rows beyond the `streams` that prefetchers follow,
    and of rows that are `begun` beside others."""

    line: Numbers
    lost: Numbers
    begun: Numbers
    streams: float

    def beyond(self, rows: Numbers) -> Numbers:
        """Of so many rows beside one another those that cost more."""
        return clipped(rows - self.streams, 0, MOST_ROWS - self.streams)


def line_costs(core: CoreCosts, from_memory: Numbers) -> LineCosts:
    """By whether plans read from memory, or from level 3."""
    pairs = (core.line, core.line_3), (core.lost, core.lost_3), (core.begun, core.begun_3)
    line, lost, begun = (np.where(from_memory, *pair) for pair in pairs)
    return LineCosts(line, lost, begun, core.streams)


def cycles_of_rows(
    at: PlanBatch, beyond: Mapping[tuple[int, int], Numbers], costs: LineCosts, limits: Limits
) -> Numbers:
    """Cycles lost on rows that are read side by side: to start them, but no more than if none of their lines were
    prefetched, and where there are more than prefetchers follow.

    A matrix unit asks for a line of each of its rows by one instruction, and waits for all together: products of 1024
    rows of 2 KiB in place took 0.92 of the time of packed ones on an Intel server core of 2024, from level 3.
    `beyond`: bytes that each touch moves from beyond level 2, by the number of its loop and its step's identity: what
    is nearer needs no prefetching.
    """
    cycles: Numbers = 0.0
    met: set[str] = set()
    for number, loop in enumerate(at.loops):
        streams: Numbers = 0
        lines: Numbers = 0
        words = words_of(loop, at, limits)
        by_unit = words.by_unit
        for step in loop.steps:
            touch = step.touch
            if touch is None or touch.home is not None or touch.place in at.choices.packs:
                continue
            if step.origin in words.passing:
                cycles = cycles + limits.core_costs.passed * _lines(step, touch, loop, at) * words.passing[step.origin]
            if touch.run not in loop.axes:
                continue
            rows = at.tile(axis for axis in touch.axes if axis != touch.run)
            often = at.programs * at.all_trips(loop.ranges)
            often = often * at.all_trips(axis for axis in executed(loop, step) if axis != touch.run)
            together = _together(touch, at)
            if step.origin in by_unit:
                together = np.where(by_unit[step.origin], np.maximum(together, MATRIX_SIDE), together)
            streams = streams + rows / together
            row = max(1, at.extents.get(touch.run, 1)) * touch.element_bytes / LINE
            begun = np.minimum(often * rows, beyond[number, id(step)] / (row * LINE))
            lines = lines + begun * row
            if touch.place not in met:
                restart = np.minimum(costs.begun, costs.line * row * together)  # one alone goes on into the next
                cycles = cycles + np.where(rows > together, begun / together * restart, 0)
            met.add(touch.place)
        cycles = cycles + lines * costs.lost * costs.beyond(streams)
    # A matrix unit's panels come between: with lanes along the rows products of 512 take as long in either order.
    along = bool(at.choices.packs) and at.choices.order[-1:] == (at.choices.lanes,)
    alone = np.logical_not(on_matrices(iter(at.loops), at, limits)) if along else 1
    return cycles + _beside(at, costs) * costs.lost * alone + _begun_in_turns(at, beyond, costs)


def _begun_in_turns(at: PlanBatch, beyond: Mapping[tuple[int, int], Numbers], costs: LineCosts) -> Numbers:
    """Cycles to begin rows that programs take in parts, several rows in turns.

    Relu from memory in tiles of 2 or 4 rows took 1.2 to 1.6 times as long as in tiles of one row on an AMD server core
    of 2024, if rows had 512 bytes to 32 KiB: as if each page of a row were begun anew. Longer rows lost little.
    """
    cycles: Numbers = 0.0
    for number, loop in enumerate(at.loops):
        for step in loop.steps:
            touch = step.touch
            if touch is None or touch.home is not None or loop.axes or step.ranges or touch.run not in at.choices.order:
                continue
            if touch.place in at.choices.packs or touch.place in at.choices.streams:
                continue
            rows = at.tile(axis for axis in touch.axes if axis != touch.run) * _neighbours(touch, loop)
            row = min(PAGE, max(1, at.extents.get(touch.run, 1)) * touch.element_bytes)
            begun = np.minimum(costs.begun, costs.line * row / LINE) * beyond[number, id(step)] / row
            cycles = cycles + np.where((rows > 1) & (at.trips(touch.run) > 1), begun, 0)
    return cycles


def _neighbours(touch: LoopAccess, loop: Loop) -> int:
    """Rows of a tensor that a loop accesses for one row of a tile: those of a stencil's neighbours are rows too."""
    alike = [each.touch for each in loop.steps if each.touch and each.touch.place == touch.place]
    return max(Counter(each.alignment for each in alike).values())


def _lines(step: LoopStep, touch: LoopAccess, loop: Loop, at: PlanBatch) -> Numbers:
    """Lines of all that a touch reads, each as often as a program reads it."""
    often = at.programs * at.all_trips(loop.ranges) * at.all_trips(executed(loop, step))
    return often * at.tile(touch.axes) * touch.element_bytes / LINE


def _together(touch: LoopAccess, at: PlanBatch) -> Numbers:
    """Rows of a tile, on one page, that prefetchers go through as through one row: short ones beside one another."""
    if touch.near is None:
        return 1.0
    axis, apart = touch.near
    apart = apart or max(1, at.extents.get(touch.run or "", 1)) * touch.element_bytes
    return np.minimum(at.size(axis), PAGE / apart) if apart <= SHORT else 1.0


def _beside(at: PlanBatch, costs: LineCosts) -> Numbers:
    """Lines of rows along the fastest tile axis, where each program goes on where the one before it ended, times the
    rows beyond those that prefetchers follow."""
    rows: dict[str, Numbers] = {}
    lines: Numbers = 0
    for loop in at.loops:
        for step in loop.steps:
            touch = step.touch
            if touch is None or touch.home is not None or loop.axes or touch.run not in at.choices.order or step.ranges:
                continue
            if touch.place not in rows:
                goes_on = at.all_trips(at.choices.order[at.choices.order.index(touch.run) + 1 :]) == 1
                beside = at.tile(axis for axis in touch.axes if axis != touch.run)
                rows[touch.place] = goes_on * beside * _neighbours(touch, loop)
                length = at.extents.get(touch.run, 1) * touch.element_bytes / LINE
                lines = lines + goes_on * length * beside * at.all_trips(a for a in touch.axes if a != touch.run)
    streams = sum(rows.values()) if rows else 0
    return lines * costs.beyond(streams)


def cycles_of_far_lines(at: PlanBatch, costs: LineCosts) -> Numbers:
    """Cycles of lines of tiles whose neighbours along the row do not belong to the next or previous program."""
    cycles: Numbers = 0.0
    steps = [step for loop in at.loops for step in loop.steps]
    for touch in dict.fromkeys(step.touch for step in steps if step.touch is not None and not step.touch.writes):
        if touch.home is None and touch.run in at.choices.order and touch.place not in at.choices.packs:
            faster = at.choices.order[at.choices.order.index(touch.run) + 1 :]
            turns = at.all_trips(axis for axis in faster if axis in touch.axes)
            rows = at.tile(axis for axis in touch.axes if axis != touch.run)
            lines = np.ceil(at.size(touch.run) * touch.element_bytes / LINE) * rows
            cycles = cycles + np.where(turns > 1, costs.line * lines * at.programs, 0)
    return cycles


def cycles_of_hops(step: LoopStep, loop: Loop, at: PlanBatch, limits: Limits) -> Numbers:
    """Cycles lost where each iteration of the innermost loop begins rows far from those of the last iteration, or each
    program writes other rows than the program before."""
    rows = _far_rows(step, loop, at, limits)
    if step.touch is None or rows is None:
        return 0.0
    stride, length = _row_bytes(step.touch, at)
    part = 1.0 if stride >= PAGE else CLOSER
    return limits.core_costs.hop * part * rows * clipped(256 / length, 0, 1)


def fetched_lines(step: LoopStep, loop: Loop, at: PlanBatch, limits: Limits) -> Numbers:
    """Lines that a step once stores on rows far from those of the last iteration: nothing but the store fetches them,
    but for the rest of a long row. None where stores pass the caches."""
    touch = step.touch
    if touch is None or not touch.writes or touch.place in at.choices.streams:
        return 0.0
    rows = _far_rows(step, loop, at, limits)
    return 0.0 if rows is None else rows * clipped(_row_bytes(touch, at)[1] / LINE, 1, MOST_FETCHED)


def _row_bytes(touch: LoopAccess, at: PlanBatch) -> tuple[int, Numbers]:
    """Bytes from one row to the next, and bytes of a row."""
    run, each = touch.row or ("", touch.element_bytes)
    return max(1, at.extents.get(run, 1)) * each, at.size(run) * each


def _far_rows(step: LoopStep, loop: Loop, at: PlanBatch, limits: Limits) -> Numbers | None:
    """Rows of a step once on other pages than those of the last iteration, which level 2 has lost; None where there
    can be none."""
    touch, packs = step.touch, at.choices.packs
    if touch is None or touch.home is not None or touch.row is None or len(touch.axes) < 2 or touch.place in packs:
        return None
    run = touch.row[0]
    inner = (*loop.axes, *step.ranges) or (at.choices.order[-1:] if touch.writes else ())
    if not inner or inner[-1] == run or inner[-1] not in touch.axes or run in at.choices.held:
        return None
    stride, length = _row_bytes(touch, at)
    if stride < PAGE // 2:
        return None
    extent = max(1, at.extents.get(inner[-1], 1))
    rows = at.tile(axis for axis in touch.axes if axis not in (run, inner[-1]))
    lost: Numbers = 1.0
    core = limits.core_costs
    if extent * min(1, stride // PAGE) <= core.pages:
        taken = extent * rows * np.maximum(length, gcd(stride, int(core.way)))
        lost = part_lost(taken, limits.shared * core.own, core.gradual)
    return lost * rows * at.size(inner[-1])
