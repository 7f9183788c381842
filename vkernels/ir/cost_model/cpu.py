"""The time of a kernel on a CPU: instructions of its inner loops, caches, memory, and threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation

from ..limits import Limits
from .atomics import IN_TURN, copied_bytes, update_cycles
from .cpu_packs import packing
from .cpu_registers import EXPANDED, cpu_spills, cpu_streamed, slots
from .cpu_rows import LINE, cycles_of_far_lines, cycles_of_rows
from .cpu_words import depth_of, operations_of, words_of
from .loops import Loop, LoopStep
from .plan_batch import ModeledTimes, Numbers, PlanBatch, clipped
from .traffic import CacheTraffic, executed


@dataclass(frozen=True)
class CoreRates:
    """Of one core, in cycles: `vectors`: operations on whole registers a cycle. Bytes a second, of all: the rest."""

    clock: float
    vectors: float
    level_2: float
    level_3: float
    memory: float


def cpu_rates(limits: Limits) -> CoreRates:
    """The rates of a CPU; where its limits have none (the defaults of `Limits`), those of a server core of 2022.

    Measured on AMD Zen 4 with 2 cores: 183 GFLOP/s (docs/measurements), which is one multiply-add a cycle on registers
    of 64 bytes; of 32 bytes or less two, as on most server cores. Level 2 and 3 by STREAM-like sums of 256
    KiB and 8 MiB a core; memory by layer normalisation of 100 MB, 29 to 36 GB/s on one core, a few more on two.
    """
    cores = limits.multiprocessors
    if limits.clock <= 1e9:
        vectors = 1.0 if limits.register_bytes > 32 else 2.0
        return CoreRates(3.5e9, vectors, 130e9 * cores, 60e9 * cores, 20e9 + 10e9 * min(cores, 24))
    lanes = limits.register_bytes / 4
    vectors = limits.multiply_adds.get("float32", limits.clock * cores * lanes) / (limits.clock * cores * lanes)
    return CoreRates(
        limits.clock, min(2.0, max(0.25, vectors)), limits.shared_bandwidth, limits.cache_bandwidth,
        limits.memory_bandwidth,
    )  # fmt: skip


CPU_LEVEL_1 = 32 << 10
"""Bytes of the first cache: of nearly every core that there is."""
LOADS = 2.0
"""Loads a cycle, of registers of 32 bytes or less; half of it for wider ones."""
LATENCY = 4.0
"""Cycles from one addition, maximum or multiply-add to the next that needs it."""
SCAN = 16.0
"""Cycles from one chunk of a scan to the next, which needs its last element."""
ITERATION = 0.5
"""Cycles that a loop adds to an iteration, of those that are not hidden."""
ACROSS = 3.0
"""Cycles of each halving, when a register's elements are combined."""
ENTRY = 12.0
"""Cycles to enter a loop, its masked tail included."""
CPU_PROGRAM_CYCLES = 25.0
"""Cycles to begin a program: coordinates, bounds, which variant."""
HOP = 18.0
"""Cycles of an iteration whose rows begin on other pages, for want of prefetching and places in the first cache."""
PANEL = 128 << 10
"""Bytes of such rows, in whole lines, beyond which the nearer caches do not keep them."""
PAGE = 4096
"""Bytes between rows from which on this happens."""
PAGES = 2048
"""Pages whose places a core knows without asking memory, as of Zen 3; of rows on more pages each is waited for."""
CLOSER = 0.25
"""Part of it where rows are closer, but no closer than half a page: every other shares a page with the one before."""
POINTERS = 8
"""Rows whose addresses general registers hold beside all else."""
APART = 2.0
"""Cycles an element where neighbouring lanes are not contiguous in memory."""
FOUND = 3.5
"""Cycles an element that is found by an index of its own: loaded, put in."""
TOGETHER = 0.35
"""Cycles of each line of a row found by an index beyond level 2, for each row beyond two that are requested at once:
neighbours often request the same rows, and while they wait for one the core looks less far ahead for others."""
INDEX = 2.5
"""Cycles of each index: taken out of its register, once for all rows that share it."""
TESTED = 12.0
"""Cycles to test whether a chunk's indices are contiguous: mostly a division of scalars, beside other chunks' work."""
BROKEN = 4.0
"""Cycles of each register in a chunk with a break: another masked load, its mask, and a selection."""
SCANNED = 14.0
"""Cycles of a scan along a register: a shift, a mask and an addition for each doubling, one after another."""
SPLIT = 0.5
"""Cycles of a register that is loaded from two lines, of those that are not hidden."""
MASKS = 7
"""Masks that registers hold."""
MASKED = 3.0
"""Cycles that a register's load or store takes more where a part of it is beyond the end of an axis."""
SELECTED = 1.0
"""Cycles of one element, for all lanes, that may be beyond the end of a tile axis: its address, or that of a 0."""
EXTENDED = 3.5
"""Cycles of one narrow float for all lanes: loaded, extended, repeated. Measured on an Intel server core of 2023 with a
matmul in f16, packed as f32 and not."""
PAST = 3.0
"""Cycles of each store past the caches: whether its address allows it is tested, which ends what can be interleaved."""
PAST_STRAIGHT = 6.0
"""The same in straight code, in scans and among polynomials, which live by that."""
OWN = 0.6
"""Part of a core's own cache that what is used again finds room in: what streams by takes the rest."""
GRADUAL = 0.33
"""How much sooner, and later, than that caches begin to lose what is used again, and have lost all of it."""
LAST_CACHE_SHARE = 0.35
"""Part of the last cache that a kernel finds its own from call to call in: other work takes the rest."""
ALONE = 30e9
"""Bytes a second that one core draws from memory at most: as many lines as it can wait for, in a memory's latency."""
SPILL_ACCESSES = 2.0
"""Loads and stores of a register that there is no room for."""
STREAMED = 16.0
"""Cycles of a register's worth of a dot's result that each iteration loads, adds to and stores: mostly the latency of
its sums. Measured on Zen 4 with attention that goes online."""


def cpu_times(at: PlanBatch, limits: Limits, registers: Numbers) -> ModeledTimes:
    """The times of plans. `registers`: vector registers that the tiles of their innermost loops take."""
    rates = cpu_rates(limits)
    cores = limits.multiprocessors
    busy = np.minimum(cores, at.threads_of_work)
    uneven = np.ceil(at.threads_of_work / cores) * cores / at.threads_of_work
    cycles = _all_cycles(at, limits, rates, registers)
    traffic = CacheTraffic(at, on_chip_counts=True, resident=busy)
    beyond = traffic.missed_by_step(limits.shared * OWN, LINE, GRADUAL)
    far = np.where(traffic.distinct() > limits.shared, cycles_of_far_lines(at), 0)
    cycles = cycles + cycles_of_rows(at, beyond) + far
    into_1, out_1 = traffic.missed(CPU_LEVEL_1 * 0.75, LINE)
    into_2, out_2 = traffic.missed(limits.shared * OWN, LINE, gradual=GRADUAL)
    into_3, out_3 = traffic.missed(limits.cache * LAST_CACHE_SHARE, LINE, users=busy, gradual=GRADUAL)
    packed, repacked = packing(at, limits)
    lost = _lost(traffic.distinct(without=at.choices.streams) / max(1.0, limits.cache * LAST_CACHE_SHARE))
    past = traffic.written(at.choices.streams)
    fetched = 1 if at.choices.streams else 2  # a line is fetched before a part of it is written
    moved = into_3 + 2 * np.maximum(0, out_3 - past)
    kept = traffic.distinct() + traffic.written() - past  # what calls before may have left there, and this
    first = np.minimum(moved, kept)  # one leaves: written lines are fetched and, at some time, written back
    cold = moved - (1 - lost) * first + past
    # What programs of a split axis write is read by the two launches after.
    partial = 3 * at.partial_bytes() if at.choices.split is not None else 0
    copies, combined = copied_bytes(at)  # copies are filled, and read by the launch that combines them
    partial = partial + 2 * copies + 2 * combined
    cycles = cycles + 2 * (copies + combined) / limits.register_bytes
    return ModeledTimes(
        {
            "instructions": cycles / rates.clock / cores * uneven,
            "level 2": (into_1 + fetched * out_1) / rates.level_2 * uneven,
            "level 3": (into_2 + fetched * out_2 + packed + partial) / rates.level_3 * uneven,
            "memory": (cold + lost * packed) / np.minimum(rates.memory, ALONE * busy),
        },
        limits.launch_seconds * at.launches + repacked / rates.clock / cores,
    )


def cpu_least(at: PlanBatch, limits: Limits) -> Numbers:
    """Seconds that plans take at least as modelled, if no register of an innermost loop spills."""
    rates, cores = cpu_rates(limits), limits.multiprocessors
    uneven = np.ceil(at.threads_of_work / cores) * cores / at.threads_of_work
    moved = CacheTraffic(at, on_chip_counts=True).least(LINE)
    return ModeledTimes(
        {
            "instructions": _all_cycles(at, limits, rates, 0) / rates.clock / cores * uneven,
            "level 2": moved / rates.level_2 * uneven,
            "level 3": moved / rates.level_3 * uneven,
        },
        limits.launch_seconds * at.launches,
    ).seconds


def _all_cycles(at: PlanBatch, limits: Limits, rates: CoreRates, registers: Numbers) -> Numbers:
    """Cycles of all loops and programs. Those of plans that fit are found once for all that share loops."""

    def begun(each: PlanBatch) -> Numbers:
        return (IN_TURN if each.choices.private_copies else CPU_PROGRAM_CYCLES) * each.programs

    def cycles(each: PlanBatch) -> Numbers:
        found, choices = each.terms.loops, each.choices
        alike = choices.lanes, choices.held, choices.order, choices.private_copies > 0
        whole = "cycles", each.loops, *alike, choices.packs, choices.streams, choices.copies
        if whole not in found:
            total = begun(each)
            for loop in each.loops:
                names = (frozenset(some) & loop.places for some in (choices.packs, choices.streams, choices.copies))
                key = "cycles", loop, *alike, *names
                if key not in found:
                    found[key] = _loop_cycles(loop, each, limits, rates, 0)
                total = total + found[key]
            found[whole] = total
        return found[whole]

    if np.any(registers > limits.registers):
        return sum((_loop_cycles(loop, at, limits, rates, registers) for loop in at.loops), start=begun(at))
    return at.of_all(cycles)


def _lost(ratio: Numbers) -> Numbers:
    """The part that is not found again in a cache after `ratio` times its bytes have passed through, in turns.

    Where any line may be replaced by any other, a line survives m lines missed with exp(-m): 1 - lost = exp(-lost x
    ratio). Caches that replace the oldest would lose all beyond a ratio of 1, but last caches do not.
    """
    return np.interp(ratio, _RATIOS, _LOSSES)


_LOSSES = np.linspace(1e-6, 1 - 1e-6, 256)
_RATIOS = -np.log1p(-_LOSSES) / _LOSSES


def _loop_cycles(loop: Loop, at: PlanBatch, limits: Limits, rates: CoreRates, registers: Numbers) -> Numbers:
    spilled = np.maximum(cpu_spills(loop, at, limits), registers - limits.registers)
    part = np.maximum(0, 1 - limits.registers / np.maximum(1, registers))  # of what plans that do not fit compute with
    width, at = max(1, limits.register_bytes // loop.element_bytes), at.within(loop)
    runs = at.programs * at.all_trips(loop.ranges)
    arithmetic: Numbers = 0.0
    loads: Numbers = 0.0
    stores: Numbers = 0.0
    hops: Numbers = 0.0
    words = words_of(loop, at, limits)
    entwined = not loop.axes or any(step.scans or step.operations >= EXPANDED for step in loop.steps)
    for step in loop.steps:
        often = at.all_trips(executed(loop, step)) * at.all_trips(step.ranges)
        vectors = slots(step.axes, at, width)
        arithmetic = arithmetic + often * vectors * operations_of(step, words)
        if step.scans:
            arithmetic = arithmetic + often * vectors * (SCANNED if step.reduced == at.choices.lanes else 0)
        elif step.completes or step.reduced in at.choices.held:
            arithmetic = arithmetic + often * _across(step.axes, step.reduced or "", at, width)
        if step.touch is not None and step.touch.atomic:
            hops = hops + often * update_cycles(step, at, width, limits)
        elif step.touch is not None:
            cost = often * _accesses(step, at, width) / depth_of(step, words)
            hops = hops + MASKED * _in_tails(step, loop, at, width) + often * SPLIT * _splits(step, at, width)
            hops = hops + often * (_selected(step, at) + _extended(step, at))
            if step.touch.writes:
                stores = stores + cost
                if step.touch.place in at.choices.streams:
                    hops = hops + (PAST_STRAIGHT if entwined else PAST) * cost
            else:
                loads = loads + cost
            hops = hops + often * (_hops(step, loop, at) + _waited(step, at, limits))
            if step.touch.breaks:
                hops = hops + often * TESTED + at.all_trips(step.ranges) * _broken(step, loop, at, width)
    guarded = {step.touch.alignment for step in loop.steps if step.touch and step.touch.guarded}
    if at.choices.lanes is not None and guarded:
        masks = min(2, len(guarded)) * slots((at.choices.lanes,), at, width)
        hops = hops + SPILL_ACCESSES * np.maximum(0, masks - MASKS)
    iterations = at.all_trips(loop.axes)
    wide = 2 if limits.register_bytes > 32 else 1
    spills = SPILL_ACCESSES * np.maximum(spilled * iterations, part * arithmetic)
    ports = np.maximum(arithmetic / rates.vectors, (loads + spills) * wide / LOADS)
    ports = np.maximum(ports, stores * wide)
    chained = LATENCY * iterations * _one_after_another(loop, at, words)
    if any(step.reduced in loop.axes for step in loop.steps if not _is_reduction(step, loop)):
        chained = SCAN * iterations
    hops = hops + STREAMED * cpu_streamed(loop, at, limits) * iterations
    entry = ENTRY + sum(_across(axes, axis, at, width) for axes, axis, _ in loop.reduced if loop.axes)
    return runs * (np.maximum(ports, chained) + hops + (ITERATION * iterations + entry if loop.axes else 0))


def _one_after_another(loop: Loop, at: PlanBatch, words: Mapping[Operation, Numbers]) -> Numbers:
    """Operations of an iteration that each wait for the one before: a dot adds its products to the same registers."""
    summed = {axis for _, axis, _ in loop.reduced} - {at.choices.lanes}
    found: Numbers = 1.0 if loop.reduced else 0.0
    for step in loop.steps:
        if step.is_dot and step.sides[2][0] in summed:
            found = np.maximum(found, at.size(step.sides[2][0]) / depth_of(step, words))
    return found


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


def _in_tails(step: LoopStep, loop: Loop, at: PlanBatch, width: int) -> Numbers:
    """Registers that a step loads or stores in the last, partly empty chunk along the lanes, or at the end of an axis
    that takes more whole registers at once than it has elements for."""
    if at.choices.lanes is None or at.choices.lanes not in step.axes:
        return 0.0
    others = [axis for axis in (*executed(loop, step), *step.ranges) if axis != at.choices.lanes]
    if at.choices.lanes not in loop.axes:  # one masked register at the end of all
        rows = at.tile(axis for axis in step.axes if axis != at.choices.lanes)
        return (at.size(at.choices.lanes) > at.extents.get(at.choices.lanes, 1)) * at.all_trips(others) * rows
    ragged = at.extents.get(at.choices.lanes, 1) % at.size(at.choices.lanes) > 0
    return ragged * at.all_trips(others) * slots(step.axes, at, width)


def _broken(step: LoopStep, loop: Loop, at: PlanBatch, width: int) -> Numbers:
    """Cycles of the chunks that have breaks, all of those along the lanes at most."""
    lanes = at.choices.lanes
    if step.touch is None or lanes not in step.axes:
        return 0.0
    chunks = at.trips(lanes)
    broken = np.minimum(1, step.touch.breaks / np.maximum(1, chunks))
    return broken * at.all_trips(executed(loop, step)) * BROKEN * slots(step.axes, at, width) * step.touch.breaks


def _selected(step: LoopStep, at: PlanBatch) -> Numbers:
    """Cycles of elements for all lanes in the programs at the end of a tile axis, which are masked along all axes."""
    touch = step.touch
    if touch is None or touch.home is not None or touch.place in at.choices.packs or at.choices.lanes in step.axes:
        return 0.0
    ragged: Numbers = False
    full: Numbers = 1.0
    for axis in at.choices.order:
        extent, size = at.extents.get(axis, 1), at.size(axis)
        full = full * (extent // size) / np.maximum(1, np.ceil(extent / size))
        if axis in touch.axes:
            ragged = ragged | ((extent % size > 0) & (size > 1))
    return ragged * (1 - full) * SELECTED * at.tile(step.axes)


def _extended(step: LoopStep, at: PlanBatch) -> Numbers:
    """Cycles of narrow elements for all lanes, unless they are packed, as wide ones."""
    touch = step.touch
    if touch is None or touch.writes or touch.element_bytes != 2 or touch.home is not None:
        return 0.0
    return 0.0 if at.choices.lanes in step.axes or touch.place in at.choices.packs else EXTENDED * at.tile(step.axes)


def _is_reduction(step: LoopStep, loop: Loop) -> bool:
    return any(step.reduced == axis for _, axis, _ in loop.reduced)


def _accesses(step: LoopStep, at: PlanBatch, width: int) -> Numbers:
    touch = step.touch
    assert touch is not None
    lanes, is_packed = at.choices.lanes, touch.is_laid_out or touch.place in at.choices.packs
    if lanes in step.axes and lanes in touch.axes and touch.run != lanes and not is_packed:
        if touch.apart is not None and touch.apart[0] == lanes:  # vectors, and moves of their lanes
            return slots(step.axes, at, width) * max(1, touch.element_bytes // 4) * 2 * touch.apart[1]
        if touch.scattered:
            return at.tile(step.axes) * FOUND + at.tile(touch.found) * INDEX
        return at.tile(step.axes) * APART
    if lanes not in touch.axes and touch.home is None and not is_packed:
        rows = at.tile(axis for axis in touch.axes if axis != touch.run)
        return at.tile(step.axes) + np.maximum(0, rows - POINTERS)
    narrow = max(1, touch.element_bytes // 4)
    return slots(step.axes, at, width) * narrow


def _across(axes: tuple[str, ...], reduced: str, at: PlanBatch, width: int) -> Numbers:
    """Cycles of reducing a tile along an axis: its registers to one, then the elements of that one, for every row."""
    if reduced != at.choices.lanes:
        return at.tile(axes) / width
    along = np.minimum(width, at.size(reduced))
    return at.tile(axis for axis in axes if axis != reduced) * ACROSS * np.ceil(np.log2(np.maximum(1, along)))


def _hops(step: LoopStep, loop: Loop, at: PlanBatch) -> Numbers:
    """Cycles lost where each iteration of the innermost loop begins rows far from those of the last iteration."""
    touch = step.touch
    packs = at.choices.packs
    if touch is None or touch.home is not None or touch.run is None or len(touch.axes) < 2 or touch.place in packs:
        return 0.0
    inner = (*loop.axes, *step.ranges)
    if not inner or inner[-1] == touch.run or inner[-1] not in touch.axes or touch.run in at.choices.held:
        return 0.0
    stride = max(1, at.extents.get(touch.run, 1)) * touch.element_bytes
    if stride < PAGE // 2:
        return 0.0
    rows = at.tile(axis for axis in touch.axes if axis not in (touch.run, inner[-1]))
    if at.extents.get(inner[-1], 1) * min(1, stride // PAGE) > PAGES:  # else an iteration's are waited for together
        rows = rows * at.size(inner[-1])
    length = at.size(touch.run) * touch.element_bytes
    panel = max(1, at.extents.get(inner[-1], 1)) * np.maximum(LINE, length)
    part = 1.0 if stride >= PAGE else CLOSER
    return HOP * part * rows * clipped(256 / length, 0, 1) * clipped(panel / PANEL, 0, 1)
