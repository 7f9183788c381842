"""The time of a kernel on a GPU: units and memories at their rates, and latencies that too few warps leave in sight."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from ..analysis.descriptors import LEAST_BYTES, feeds_dots
from ..analysis.needs import NeedsDevice
from ..limits import Limits
from ..occupancy import AmdSizes, NvidiaSizes
from .across_programs import seconds_saved
from .bank_conflicts import bank_bytes
from .chained_dots import (
    SCHEDULERS,
    is_chained,
    repeated_tiles,
    scheduler_lanes,
    times_repeated,
    unpacked,
)
from .combining import combining_seconds
from .gpu_dots import dot_work, takes_bytes_any_way, tensor_columns
from .item_widths import tensor_rate
from .loops import Loop, LoopAccess, LoopStep
from .operand_copies import DESCRIBED_PART, is_copied_ahead, more_instructions, through_registers
from .operation_weights import saved_by_approximating
from .plan_batch import ModeledTimes, Numbers, PlanBatch, clipped
from .shared_rows import exchange_seconds
from .traffic import CacheTraffic
from .warp_roles import all_warps, handed_over_part, multiplying_warps

MEMORY_SECTOR = 64
"""Bytes that memory hands out at least."""
CACHE_REACHED = 0.4
"""Part of the paths from the last cache that programs fill: 5.5 to 7 of H100's 16.7 TB/s in microbenchmarks."""
CACHE_HELD = 0.75
"""Part of the last cache that keeps what is read again."""
GPU_LEVEL_1 = 32 << 10
"""Bytes a multiprocessor that keep what a program reads again, at least; NVIDIA's also what shared memory leaves."""
MEMORY_LATENCY = 7e-7
"""Seconds from a load to its use: 500 to 800 cycles, as published microbenchmarks of both vendors find."""
CACHE_LATENCY = 3e-7
"""The same where programs read what others have read before."""
LEVEL_1_LATENCY = 2e-8
"""The same where a multiprocessor's own cache has it: 33 to 40 cycles, as published microbenchmarks find."""
ON_CHIP_LATENCY = 5e-8
"""Seconds of an access of shared memory and the barrier before it."""
BESIDE = 4
"""Iterations of a loop within a phase whose accesses are under way at once: as many as binaries show, as in needs."""
REDUCTION_LATENCY = 1e-7
"""Seconds of a reduction across a program's threads: shuffles, shared memory, a barrier."""
SHUFFLE_LATENCY = 1.5e-8
"""Seconds of one step of a reduction within a warp, which binaries make of a shuffle and an operation: 27 cycles."""
GPU_PROGRAM_SECONDS = 1e-6
"""Seconds to begin and to end a program: scheduling, arguments, first addresses."""
DRAWN = 0.5
"""Part of the multiprocessors that can draw all of the memory's bandwidth."""
A_THREAD, DOT_A_THREAD = 64, 128
"""Elements of a tile that a thread takes, at most: more hide no more latency, and take long to compile. Of the result
of a dot on tensor cores twice as many, which accumulate there anyway."""
BEYOND = 1.5
"""How many times the registers there are tiles may take: compilers put operations in an order that needs fewer."""
SIDE_BY_SIDE = 4
"""Elements side by side that a thread has, where it has so many: 16 bytes, which it loads at once."""
SPILLING = 4.0
"""How many times slower a program is said to be whose registers do not fit: so slow that others are preferred."""


@dataclass(frozen=True)
class MultiprocessorRoom:
    """What programs share of one multiprocessor: threads, registers, bytes of shared memory, programs.

    `is_apart`: its first cache is no part of the shared memory, as on AMD's.
    """

    threads: int
    registers: int
    shared: int
    programs: int
    is_apart: bool = False


def room_of(limits: Limits) -> MultiprocessorRoom:
    """The room of one multiprocessor; that of NVIDIA's since 8.0 where limits do not say."""
    sizes = limits.sizes
    if isinstance(sizes, NvidiaSizes):
        return MultiprocessorRoom(sizes.warps * sizes.warp, sizes.registers, sizes.shared, sizes.blocks)
    if isinstance(sizes, AmdSizes):
        registers = sizes.registers * sizes.partitions * sizes.warp
        return MultiprocessorRoom(
            sizes.warps * sizes.partitions * sizes.warp, registers, sizes.shared, sizes.blocks, is_apart=True
        )
    return MultiprocessorRoom(2048, 65536, limits.shared, 32)


def waits_for_copies(limits: Limits) -> bool:
    """Whether each iteration of a pipelined loop of dots waits, at a barrier, for copies that pass the registers:
    NVIDIA's since sm_80. AMD's with such copies issue all that are ahead one after another before the loop."""
    return limits.copies_ahead and not room_of(limits).is_apart


def programs_at_once(at: PlanBatch, limits: Limits, registers: Numbers, shared: Numbers) -> tuple[Numbers, Numbers]:
    """How many programs run at once, and how many of them on one multiprocessor, of plans with these registers a
    thread and bytes of shared memory a program."""
    room, cores = room_of(limits), limits.multiprocessors
    threads = all_warps(at, limits) * limits.warp
    if at.choices.warp_specialized:  # roles take all registers of a multiprocessor between them
        registers = np.maximum(registers, room.registers // threads)
    resident = np.minimum(room.threads // threads, room.registers // np.maximum(1, threads * registers))
    resident = np.minimum(np.minimum(resident, room.shared // np.maximum(1, shared)), room.programs)
    if limits.tensor_memory:
        resident = np.minimum(resident, limits.tensor_memory // np.maximum(1, tensor_columns(at, limits)))
    at_once = np.minimum(at.threads_of_work, cores * np.maximum(1, resident))
    at_once = np.where(np.asarray(at.resident) > 0, np.minimum(at_once, at.resident), at_once)
    return at_once, np.minimum(np.maximum(1, resident), np.ceil(at_once / cores))


def gpu_times(at: PlanBatch, limits: Limits, registers: Numbers, shared: Numbers) -> ModeledTimes:
    """The times of plans with these registers a thread and bytes of shared memory a program."""
    room, cores = room_of(limits), limits.multiprocessors
    programs = at.threads_of_work
    at_once, resident = programs_at_once(at, limits, registers, shared)
    busy = np.minimum(cores, at_once)
    waves = np.ceil(programs / at_once)
    uneven = np.ceil(programs / busy) * cores / programs
    share = np.maximum(1, DRAWN * cores / at_once)
    traffic = CacheTraffic(at, on_chip_counts=False, resident=at_once)
    level_1 = GPU_LEVEL_1 if room.is_apart else np.maximum(GPU_LEVEL_1, room.shared - resident * shared)
    # The order of programs decides what the last cache holds; a multiprocessor's own sees programs of any group.
    own = traffic
    if at.choices.swizzle > 1:
        own = CacheTraffic(replace(at, choices=replace(at.choices, swizzle=1)), on_chip_counts=False, resident=at_once)
    read, written = own.missed(level_1 / resident, MEMORY_SECTOR)
    missed, put = traffic.missed(limits.cache * CACHE_HELD, MEMORY_SECTOR, users=at_once)
    plain, tensor, on_chip, chain = gpu_work(at, limits)
    partial = at.partial_bytes() if at.choices.split is not None else 0
    chain = chain + combining_seconds(at, limits, partial, CACHE_LATENCY)
    slow = np.where(registers > NeedsDevice.of(limits).registers, SPILLING, 1)
    saved = seconds_saved(at, waves, GPU_PROGRAM_SECONDS + CACHE_LATENCY)
    return ModeledTimes(
        {
            "operations": plain * uneven * slow,
            "tensor cores": tensor * uneven * slow,
            "shared memory": on_chip / limits.shared_bandwidth * uneven,
            "cache": (read + written + 3 * partial) / (CACHE_REACHED * limits.cache_bandwidth) * uneven,
            "memory": (missed + put + np.where(partial > limits.cache / 2, 3 * partial, 0))
            / limits.memory_bandwidth
            * share,
            "latency": (waves * chain - saved) * slow,
        },
        limits.launch_seconds * at.launches + 2 * at.copied / limits.memory_bandwidth,
    )


def gpu_least(at: PlanBatch, limits: Limits) -> Numbers:
    """Seconds that plans take at least as modelled, whatever registers and shared memory they take."""
    room, cores = room_of(limits), limits.multiprocessors
    threads, programs = at.warps * limits.warp, at.threads_of_work
    resident = np.maximum(1, np.minimum(room.threads // threads, room.programs))
    at_once = np.minimum(programs, cores * resident)
    uneven = np.ceil(programs / np.minimum(cores, programs)) * cores / programs
    moved = CacheTraffic(at, on_chip_counts=False).least(MEMORY_SECTOR)
    plain, tensor, on_chip, chain = gpu_work(at, limits)
    return ModeledTimes(
        {
            "operations": plain * uneven,
            "tensor cores": tensor * uneven,
            "shared memory": on_chip / limits.shared_bandwidth * uneven,
            "cache": moved / (CACHE_REACHED * limits.cache_bandwidth) * uneven,
            "memory": moved / limits.memory_bandwidth * np.maximum(1, DRAWN * cores / at_once),
            "latency": np.ceil(programs / at_once) * chain,
        },
        limits.launch_seconds * at.launches + 2 * at.copied / limits.memory_bandwidth,
    ).seconds


_Work = tuple[Numbers, Numbers, Numbers, Numbers]
"""Seconds of plain units and of tensor cores, and bytes of shared memory, of all programs; latency of one program."""


def gpu_work(at: PlanBatch, limits: Limits) -> _Work:
    """The work of all loops."""

    def part(number: int) -> Numbers:
        return at.of_all(lambda each: _work_of(each, limits)[number])

    return part(0), part(1), part(2), part(3)


def _work_of(at: PlanBatch, limits: Limits) -> _Work:
    found, threads = at.terms.loops, at.warps * limits.warp
    alike = at.choices.held, at.choices.split, at.choices.descriptors, at.choices.warp_specialized
    if ("work", at.loops, *alike) not in found:
        # Each descriptor is written to memory and read from there before it is used.
        total: _Work = (0.0, 0.0, 0.0, GPU_PROGRAM_SECONDS + len(at.choices.descriptors) * MEMORY_LATENCY)
        for loop in (at.alike(each, at.choices.descriptors) for each in at.loops):
            if ("work", loop, *alike) not in found:
                found["work", loop, *alike] = _work(loop, at, limits, threads)
            one = found["work", loop, *alike]
            total = (total[0] + one[0], total[1] + one[1], total[2] + one[2], total[3] + one[3])
        found["work", at.loops, *alike] = total
    work: _Work = found["work", at.loops, *alike]
    return work


def is_wieldy(at: PlanBatch, limits: Limits, registers: Numbers) -> Numbers:
    """Whether threads take few elements, and few registers more than there are: plans beyond only where none is so."""

    def words(each: PlanBatch) -> Numbers:
        return reduce(np.maximum, (_largest(each.alike(loop), each) for loop in each.loops), 0)

    most, cores = at.of_all(words), NeedsDevice.of(limits).tensor_cores
    has_dots = any(loop.has_dots and tensor_rate(loop.tensor_dtype, limits) for loop in at.loops)
    elements = DOT_A_THREAD if cores and has_dots else A_THREAD
    return (most <= elements * multiplying_warps(at, limits) * limits.warp) & (registers <= BEYOND * limits.registers)


def _largest(loop: Loop, at: PlanBatch) -> Numbers:
    """Words of the largest tile of a loop, but of dots."""
    found = at.terms.loops
    if ("words", loop) not in found:
        words = (at.tile(step.axes) * _words(step, loop) for step in loop.steps if not step.is_dot)
        found["words", loop] = reduce(np.maximum, words, 0)
    return found["words", loop]


def _words(step: LoopStep, loop: Loop) -> int:
    """Words of an element of a step's tile."""
    return 2 if step.in_int64 or loop.is_of_float64 else 1


def _work(loop: Loop, at: PlanBatch, limits: Limits, threads: Numbers) -> _Work:
    at = at.within(loop)
    ranged = at.all_trips(loop.ranges)
    runs = at.programs * ranged
    rate = limits.multiply_adds.get("float64" if loop.is_of_float64 else "float32", 1e10)
    of_int64 = 1.0 if loop.is_of_float64 else max(1.0, rate / limits.multiply_adds.get("int64", rate))
    operations: Numbers = 0.0
    tensor: Numbers = 0.0
    on_chip: Numbers = 0.0
    waits: Numbers = 0.0
    read: Numbers = 0.0
    written: Numbers = 0.0
    shuffled: Numbers = 0.0
    takes_operands = tensor_rate(loop.tensor_dtype, limits) > 0
    any_way = takes_bytes_any_way(loop, at, limits)
    repeated, plain = repeated_tiles(loop, at, limits), unpacked(loop, limits)
    for (loops, ranges), steps in loop.by_trips.items():
        trips = at.all_trips((*loops, *ranges))
        once: Numbers = 0.0
        for step, times in steps:
            often = trips * times
            if step.is_dot:
                here, taken, moved = dot_work(loop, step, at, limits)
                here = here * times_repeated(step, repeated)
                tensor, once, on_chip = tensor + often * here, once + times * taken, on_chip + often * moved
            elif step.touch is not None:
                # What is loaded ahead is handed on from each iteration to the next.
                handed = np.maximum(1, at.stages) if _is_ahead(loop, step.touch) else 1
                elements = times * np.maximum(at.tile(step.axes), threads)
                more = more_instructions(step.touch, limits, any_way) * elements if takes_operands else 0.0
                part = DESCRIBED_PART if _is_described(at, step, step.touch) else 1
                once = once + elements * handed * part + more
                if not limits.copies_ahead:  # few warps, which wait for these before they multiply
                    tensor = tensor + trips * more / rate
                if at.is_on_chip(step.touch):
                    on_chip = on_chip + often * at.tile(step.axes) * bank_bytes(step.touch, at, loop)
                    accesses = trips / _beside(at, step)
                    if step.touch.writes:
                        written = np.maximum(written, accesses)
                    else:
                        read = np.maximum(read, accesses)
            elif step.operations:
                needed = step.operations - (saved_by_approximating(step.origin) if step.origin is not None else 0)
                again = plain * times_repeated(step, repeated) * (of_int64 if step.in_int64 else 1)
                once = once + times * np.maximum(at.tile(step.axes), threads) * needed * again
            if step.completes or (step.reduced is not None and (step.reduced in at.choices.held or not loop.axes)):
                shuffles = _shuffles(at, step, limits)
                waits = waits + often * np.where(shuffles > 0, 0, REDUCTION_LATENCY)
                shuffled = np.maximum(shuffled, trips * shuffles)
        operations = operations + trips * once
    # Between the loads of a loop, its stores, and its reductions within warps there are no barriers: they overlap.
    waits = waits + (read + written) * ON_CHIP_LATENCY + shuffled * SHUFFLE_LATENCY
    latency: Numbers = 0
    for step in loop.steps:
        if step.touch is not None and not step.touch.writes and not at.is_on_chip(step.touch):
            is_own = step.touch.home is not None or set(at.choices.order) <= set(step.touch.axes)
            one = _first_or_again(MEMORY_LATENCY if is_own else CACHE_LATENCY, step)
            ahead = np.maximum(1, at.stages) if _is_ahead(loop, step.touch) else 1
            latency = np.maximum(latency, at.all_trips(step.ranges) / np.maximum(_beside(at, step), ahead) * one)
    is_pipelined: Numbers = loop.has_dots and not any(visit.is_tested for visit in loop.visits)
    if takes_operands:
        copied_ahead = (is_copied_ahead(touch, limits, any_way) for _, touch in loop.touches)
        is_pipelined = reduce(np.logical_and, copied_ahead, is_pipelined)
    split, copied = at.shares if at.choices.split in loop.axes else 1, waits_for_copies(limits)
    iterations = at.all_trips(loop.axes) / split
    # One of the stages is what is multiplied, where copies fill the others.
    latency = latency / np.where(is_pipelined, np.maximum(1, at.stages - 1 if copied else at.stages), 1)
    operations = operations * np.where(is_pipelined, through_registers(at.stages) if copied else 1, 1)
    if loop.axes and loop.has_dots and copied:  # operands are handed over, through registers without stages
        handed_over = np.where(np.asarray(at.stages) > 1, 1, 2) * ON_CHIP_LATENCY * handed_over_part(at, limits)
        latency = latency + handed_over + exchange_seconds(loop, at, limits)
    waits = waits / split + iterations * latency + (REDUCTION_LATENCY if loop.axes and loop.reduced else 0)
    schedulers = np.minimum(SCHEDULERS, at.warps)
    issued = operations / split / (scheduler_lanes(loop, limits) * schedulers) / limits.clock
    if is_chained(loop, limits):  # what is multiplied next waits for what was computed of the products before
        issued = issued + tensor / split * limits.multiprocessors * SCHEDULERS / schedulers
    return runs * operations / rate, runs * tensor, runs * on_chip, ranged * (waits + issued)


def _first_or_again(first: float, step: LoopStep) -> float:
    """The latency of a load on average: in a range along contiguous elements only a sector's first wait for long."""
    if step.touch is None or step.touch.run not in step.ranges:
        return first
    return LEVEL_1_LATENCY + min(1.0, BESIDE * step.touch.element_bytes / MEMORY_SECTOR) * (first - LEVEL_1_LATENCY)


def _shuffles(at: PlanBatch, step: LoopStep, limits: Limits) -> Numbers:
    """Steps of a reduction within a warp; 0 for one across warps, as where its axis is not along a warp's threads."""
    if step.reduced is None or step.reduced not in (at.choices.lanes, step.axes[-1]):
        return 0
    threads = at.warps * limits.warp
    along = at.size(step.reduced) / clipped(at.tile(step.axes) / threads, 1, SIDE_BY_SIDE)
    return np.where(along <= limits.warp, np.ceil(np.log2(np.maximum(2, along))), 0)


def _is_ahead(loop: Loop, touch: LoopAccess) -> bool:
    """Whether a loop around straight code loads it for later iterations, as many as there are stages."""
    return touch.ahead and not loop.axes


def _is_described(at: PlanBatch, step: LoopStep, touch: LoopAccess) -> bool:
    """Whether an operand of dots is moved by descriptors, as its rows' addresses allow."""
    is_aligned = touch.home is None and touch.alignment % LEAST_BYTES == 0
    return touch.place in at.choices.descriptors and is_aligned and feeds_dots(step.origin)


def _beside(at: PlanBatch, step: LoopStep) -> Numbers:
    """Iterations of the loops around a step, within its phase, whose accesses are in flight together: one of loops that
    end sooner for some elements than for others, which binaries do not unroll."""
    return np.where(at.tile(step.ragged) > 1, 1, clipped(at.all_trips(step.ranges), 1, BESIDE))
