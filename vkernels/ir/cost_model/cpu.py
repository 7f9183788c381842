"""The time of a kernel on a CPU: instructions of its inner loops, caches, memory, and threads."""

from __future__ import annotations

from functools import reduce

import numpy as np

from ..limits import Limits
from .atomics import IN_TURN, copied_bytes
from .cache_sets import Sets
from .core_rates import CoreRates, cpu_rates
from .cpu_packs import packing
from .cpu_registers import cpu_spills, cpu_streamed, slots
from .cpu_rows import cycles_of_far_lines, cycles_of_rows, fetched_lines, line_costs
from .cpu_steps import StepCycles, across, broken_chunks, in_tails, step_cycles
from .cpu_words import Words, chain_of, moves_of_sums, shapes_differ, words_of
from .kept_loops import programs_in_turn
from .loops import LINE, Loop, LoopStep
from .plan_batch import ModeledTimes, Numbers, PlanBatch
from .traffic import CacheTraffic

GRADUAL_1 = 0.25
"""How much sooner, and later, than its bytes the first cache begins to lose what is used again, and has lost all of it.
Of attention whose operands and results are gone through for every six keys, 44 KiB take no longer than 36 on an Intel
server core of 2023 with 48 KiB, 50 half as long again, and 67 as long as level 2 takes for all. A part of the cache's
size, which the system reports."""
ITERATION = 0.5
"""Cycles that a loop adds to an iteration, of those that are not hidden: instructions counted, an addition and a
branch."""
CPU_PROGRAM_CYCLES = 25.0
"""Cycles to begin a program: coordinates, bounds, which variant. Instructions counted."""
ELEMENTWISE_CYCLES = 6.0
"""The same of elementwise code without guards, which a core begins before it has ended the program before. On an AMD
server core of 2024 a program of relu takes 6 cycles longer by one vector than half a program of two, in level 1; of
gelu, whose arithmetic hides more, 2. A program of a stencil, which finds its guards for itself, takes about 30, and
many programs that each sum one row take longer than a few, in 16 bits more than in 32."""
MASKS = 7
"""Masks that registers hold."""
SPILL_ACCESSES = 2.0
"""Loads and stores of a register that there is no room for."""
STREAMED = 4.0
"""Sums that wait for one another where each iteration loads a register's worth of a dot's result, adds to it and stores
it."""
CROWDED = 6.0
"""How sharply the longest of arithmetic, loads and chains hides the others in loops of multiply-adds: their times are
combined by a norm of this order, so that two as long as each other take 1.12 times as long. Measured on an Intel server
core of 2023 with products whose operands are near: 16 rows of one register, which load 17 registers for 16
multiply-adds, take 1.13 to 1.15 times as long as 8 rows of two, and 4 rows of two, whose sums are just as many chains
as there are multiply-adds in flight, 1.12 to 1.18 times. How many ports there are is measured; how they share work is
alike where the oldest instruction that is ready goes first."""
TINY = 1e-9
"""Cycles that are none, but may be divided by."""


def cpu_times(at: PlanBatch, limits: Limits, registers: Numbers) -> ModeledTimes:
    """The times of plans. `registers`: vector registers that the tiles of their innermost loops take."""
    rates, core = cpu_rates(limits), limits.core_costs
    cores = limits.multiprocessors
    busy = np.minimum(cores, at.threads_of_work)
    uneven = np.ceil(at.threads_of_work / cores) * cores / at.threads_of_work
    cycles = _all_cycles(at, limits, rates, registers)
    traffic = CacheTraffic(at, on_chip_counts=True, resident=busy)
    # Only in level 2: rows that level 1 has no place for come in time (1 % between 512 packed rows and others).
    level_2, gradual = limits.shared * core.own, core.gradual
    sets = Sets(int(core.way), level_2)
    own = CacheTraffic(at, on_chip_counts=True, resident=busy, sets=sets) if sets.matter(at) else traffic
    beyond_2 = own.missed_by_touch(level_2, LINE, gradual=gradual)
    level_3 = limits.cache * core.cache_share
    lines = line_costs(core, traffic.distinct() > level_3)
    far = np.where(traffic.distinct() > limits.shared, cycles_of_far_lines(at, lines), 0)
    cycles = cycles + cycles_of_rows(at, traffic.by_step(beyond_2), lines, limits) + far
    into_1, out_1 = traffic.missed(core.level_1, LINE, gradual=GRADUAL_1)
    into_2, out_2 = traffic.read_and_written(beyond_2)
    into_3, out_3 = traffic.missed(level_3, LINE, users=busy, gradual=gradual)
    packed, repacked = packing(at, limits)
    lost = lost_between(traffic.distinct(without=at.choices.streams) / max(1.0, level_3))
    past = traffic.written(at.choices.streams)
    written_2 = past + core.stored_2 * np.maximum(0, out_1 - past)
    past_3, past_memory = core.stored_past(cores)
    written_3 = past_3 * past + core.stored_3 * np.maximum(0, out_2 - past)
    moved = into_3 + core.stored * np.maximum(0, out_3 - past)
    # What calls before may have left there, and this one leaves: written lines are fetched, and written back some time.
    kept = traffic.distinct() + (core.stored - 1) * (traffic.written() - past)
    first = np.minimum(moved, kept)
    cold = moved - (1 - lost) * first + past_memory * past
    # What programs of a split axis write is read by the two launches after.
    partial = 3 * at.partial_bytes() if at.choices.split is not None else 0
    copies, combined = copied_bytes(at)  # copies are filled, and read by the launch that combines them
    partial = partial + 2 * copies + 2 * combined
    cycles = cycles + 2 * (copies + combined) / limits.register_bytes
    from_memory = (cold + lost * packed) / np.minimum(rates.memory, core.memory * busy)
    waits = core.waited_3 * into_2 / rates.level_3 * uneven + core.waited * from_memory
    return ModeledTimes(
        {
            "instructions": cycles / rates.clock / cores * uneven + waits,
            "level 2": (into_1 + written_2) / rates.level_2 * uneven,
            "level 3": (into_2 + written_3 + packed + partial) / rates.level_3 * uneven,
            "memory": from_memory,
        },
        limits.launch_seconds * at.launches + repacked / rates.clock / cores,
    )


def cpu_least(at: PlanBatch, limits: Limits) -> Numbers:
    """Seconds that plans take at least as modelled, if no register of an innermost loop spills."""
    rates, core, cores = cpu_rates(limits), limits.core_costs, limits.multiprocessors
    uneven = np.ceil(at.threads_of_work / cores) * cores / at.threads_of_work
    moved = CacheTraffic(at, on_chip_counts=True).least(LINE)
    return ModeledTimes(
        {
            "instructions": _all_cycles(at, limits, rates, 0) / rates.clock / cores * uneven,
            "level 2": min(1, core.stored_2) * moved / rates.level_2 * uneven,
            "level 3": min(1, core.stored_3, core.stored_past(cores)[0]) * moved / rates.level_3 * uneven,
        },
        limits.launch_seconds * at.launches,
    ).seconds


def _all_cycles(at: PlanBatch, limits: Limits, rates: CoreRates, registers: Numbers) -> Numbers:
    """Cycles of all loops and programs. Those of plans that fit are found once for all that share loops."""

    def begun(each: PlanBatch) -> Numbers:
        cycles = ELEMENTWISE_CYCLES if _is_elementwise(each) else CPU_PROGRAM_CYCLES
        return (IN_TURN if each.choices.private_copies else cycles) * each.programs

    def cycles(each: PlanBatch) -> Numbers:
        found, choices = each.terms.loops, each.choices
        alike = choices.lanes, choices.held, choices.order, choices.private_copies > 0
        kept = choices.swizzle > 1, choices.split
        whole = "cycles", each.loops, *alike, *kept, choices.packs, choices.streams, choices.copies
        if whole not in found:
            total = begun(each)
            for loop in each.loops:
                places = loop.places if loop.axes else loop.places | set(choices.packs)  # see `cpu_spills`
                names = [frozenset(some) & places for some in (choices.packs, choices.streams, choices.copies)]
                work = each.alike(loop, _named(each))
                key = "cycles", work, *alike, *names
                if key not in found:
                    found[key] = _loop_cycles(work, each, limits, rates, 0)
                total = total + found[key] / programs_in_turn(loop, each, limits.multiprocessors)
            found[whole] = total + _reshaped(each, limits)
        return found[whole]

    if np.any(registers > limits.registers):
        return begun(at) + sum(
            _loop_cycles(at.alike(loop, _named(at)), at, limits, rates, registers)
            / programs_in_turn(loop, at, limits.multiprocessors)
            for loop in at.loops
        )
    return at.of_all(cycles)


def _is_elementwise(at: PlanBatch) -> bool:
    """Whether programs have no loops, no reductions, and no accesses that are guarded."""
    steps = [step for loop in at.loops for step in loop.steps]
    guarded = any(step.touch is not None and step.touch.guarded for step in steps)
    loops = any(loop.axes or loop.ranges for loop in at.loops)
    return not (guarded or loops or any(step.reduced for step in steps))


def _reshaped(at: PlanBatch, limits: Limits) -> Numbers:
    """Cycles in which a matrix unit's registers are set up anew, since its dots have several shapes."""
    loops = [(loop, words) for loop in at.loops if (words := words_of(loop, at, limits)).sums]
    if not loops:
        return 0.0
    times: Numbers = 0.0
    for loop, words in loops:
        for axes, is_held in words.sums.items():
            times = times + is_held * moves_of_sums(axes, loop, at, words)
    return limits.core_costs.reshaped * times * at.programs * shapes_differ(words for _, words in loops)


def _named(at: PlanBatch) -> frozenset[str]:
    """The tensors and homes that decide what accesses cost."""
    choices = at.choices
    return frozenset((*choices.packs, *choices.streams, *choices.copies, *at.updates.tensors))


def lost_between(ratio: Numbers) -> Numbers:
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
    width, at, core = max(1, limits.register_bytes // loop.element_bytes), at.within(loop), limits.core_costs
    runs = at.programs * at.all_trips(loop.ranges)
    all_steps = StepCycles()
    hops: Numbers = 0.0
    fetched: Numbers = 0.0
    words = words_of(loop, at, limits)
    for (loops, ranges), steps in loop.by_trips.items():
        once = StepCycles()
        for step, times in steps:
            once = once.plus(step_cycles(step, loop, at, limits, width, words), times)
            if core.fetched_store:
                lines = fetched_lines(step, loop, at, limits)
                fetched = fetched + times * at.all_trips((*loops, *ranges)) * lines
            if step.touch is not None and not step.touch.atomic:
                hops = hops + times * core.masked * in_tails(step, loop, at, width)
                if step.touch.breaks:
                    hops = hops + times * at.all_trips(ranges) * broken_chunks(step, loop, at, width)
        all_steps = all_steps.plus(once, at.all_trips((*loops, *ranges)))
    arithmetic, loads, stores, hops = all_steps.arithmetic, all_steps.loads, all_steps.stores, all_steps.hops + hops
    guarded = {step.touch.alignment for step in loop.steps if step.touch and step.touch.guarded}
    if at.choices.lanes is not None and guarded:
        masks = min(2, len(guarded)) * slots((at.choices.lanes,), at, width)
        hops = hops + SPILL_ACCESSES * np.maximum(0, masks - MASKS)
    iterations = at.all_trips(loop.axes)
    spills = SPILL_ACCESSES * np.maximum(spilled * iterations, part * arithmetic)
    computed, loaded = arithmetic / rates.vectors, (loads + spills) / core.loads
    ports = np.maximum(np.maximum(computed, loaded), stores / core.stores)
    ports = np.maximum(ports, core.fetched_store * np.maximum(0, fetched - core.buffered))
    chained = core.latency * iterations * _one_after_another(loop, at, words)
    if any(step.reduced in loop.axes for step in loop.steps if not _is_reduction(step, loop)):
        chained = core.carried * iterations
    if loop.has_dots:
        ports = np.maximum(ports, _crowded(computed, loaded, chained))
    hops = hops + STREAMED * core.latency * cpu_streamed(loop, at, limits) * iterations
    # The end of a loop, of whose trips nothing is known before, and its masked tail.
    entry = core.mispredicted + sum(
        across(axes, axis, at, width, core.across) for axes, axis, _ in loop.reduced if loop.axes
    )
    found = runs * (np.maximum(ports, chained) + hops + (ITERATION * iterations + entry if loop.axes else 0))
    for axes, is_held in words.sums.items():
        moved = is_held * (core.settled + core.given_back * slots(axes, at, width))
        found = found + at.programs * moves_of_sums(axes, loop, at, words) * moved
    return found


def _crowded(*parts: Numbers) -> Numbers:
    """The time of parts that hide each other, the less so the more alike they are."""
    longest = np.maximum(reduce(np.maximum, parts), TINY)
    return longest * sum((part / longest) ** CROWDED for part in parts) ** (1 / CROWDED)


def _one_after_another(loop: Loop, at: PlanBatch, words: Words) -> Numbers:
    """Operations of an iteration that each wait for the one before: a dot adds its products to the same registers."""
    summed = {axis for _, axis, _ in loop.reduced} - {at.choices.lanes}
    found: Numbers = 1.0 if loop.reduced else 0.0
    for step in loop.steps:
        if step.is_dot and step.sides[2][0] in summed:
            found = np.maximum(found, at.size(step.sides[2][0]) * chain_of(step, words))
    return found


def _is_reduction(step: LoopStep, loop: Loop) -> bool:
    return any(step.reduced == axis for _, axis, _ in loop.reduced)
