"""Measure the rates of this machine's CPU, once; docs/slices.md says how."""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from vkernels.ir.core_costs import LAST_CACHE_SHARE
from vkernels.ir.cost_model.loops import LINE
from vkernels.ir.cost_model.plan_batch import OVERLAP
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.dot_units import DOT_UNITS
from vkernels.ir.limits import Limits
from vkernels.ir.system_resources import ThreadPool
from vkernels.targets.cpu_rates import (
    OF_INSTRUCTIONS,
    CpuRates,
    family_cpu_rates,
    in_ranges,
    known_cpu_rates,
    store_cpu_rates,
)
from vkernels.targets.host_cpu import LAUNCH_SECONDS, WAKE_SECONDS, cpu_limits

from .calibrate_accesses import AccessMeasurement
from .calibrate_instructions import InstructionMeasurement, more_loops
from .calibration_accesses import BESIDE as ADDED
from .calibration_loops import CHAIN_CYCLES, LOADED_VECTORS, MULTIPLY_ADDS, WAITS, LargeMemory, Loops, buffer, loops
from .confirm_rates import AGREE, confirmed
from .machine_load import quiet_cores

SECONDS = 6e-3
"""How long one timed run takes, about."""

ROUNDS = 5
"""Timed runs that nothing interrupted. The fastest counts, as disturbances only make a run slower."""
MOST_ROUNDS = 25
"""Timed runs at most."""
LONG_SECONDS, LONG_ROUNDS = 0.03, 3
"""Of runs that take as long, one of so many that nothing interrupted: one pass over memory that no cache holds."""
INTERRUPTED = 1.02
"""How much longer than it ran a thread took, at least, if others had its core meanwhile; and seconds besides."""
LATE = 5e-5
TOGETHER = 0.75
"""Part of the threads that nothing interrupts in a run that counts."""

MAX_BYTES = 1 << 29
"""Memory that all threads together read, at most."""

PAYS = 1.05
"""How much faster narrow vectors must be to be preferred: beside arithmetic, wide ones take fewer instructions."""
NEAR = 8 << 10
"""Bytes that any nearest cache holds."""

PAST = 1 << 26
"""Bytes that are stored past the caches, which keep none of them, in a pass: it lasts about as long as a run."""

BEYOND = 4
"""Bytes beside those of level 2 of which few are found there."""

ATOMICS = 64
"""Blocks of atomic additions of a pass."""
ATTEMPTS = 4


MeasureLaunch = Callable[[int], tuple[float, float] | None]
"""Gives the seconds of handing a launch to so many threads that wait for one, and that sleep; None where that cannot be
measured."""


def calibrate_cpu(cache: DiskCache | None = None, again: bool = False, launch: MeasureLaunch | None = None) -> CpuRates:
    """The rates of this machine's CPU: those on disk, or measured now, in some seconds.

    They are stored unless other work disturbed them: measure again then when the machine is idle. `cache`: where to
    store them, this user's cache unless given. `again`: measure in any case. `launch`: `measure_launch` of the runtime;
    without it, launches cost what they usually do.
    """
    found = None if again else known_cpu_rates(cache)
    return measure_and_store(cache, launch=launch).rates if found is None else found


def measure_and_store(
    cache: DiskCache | None = None, attempts: int = ATTEMPTS, launch: MeasureLaunch | None = None
) -> Measured:
    """Measure now, and store the rates unless other work disturbed them."""
    found = measure_undisturbed(attempts, launch)
    if found.disturbed:
        return found
    return replace(found, stored=store_cpu_rates(found.rates, cache))


@dataclass(frozen=True)
class Measured:
    """Measured rates; whether other work `disturbed` them, and whether they are `stored`."""

    rates: CpuRates
    disturbed: bool
    stored: bool = False


def measure_undisturbed(attempts: int = ATTEMPTS, launch: MeasureLaunch | None = None) -> Measured:
    """Measure until of each rate two measurements agree that nothing interrupted, at most so often. Else the last."""
    kept: list[CpuRates] = []
    for _ in range(max(1, attempts)):
        found = measure_cpu(launch, quiet_cores(cpu_limits().multiprocessors))
        kept += [] if found.disturbed else [found.rates]
        if (rates := confirmed(kept)) is not None:
            return Measured(rates, disturbed=False)
    return replace(found, disturbed=True)


EACH_CORES = ("multiply_adds", "shared", "cache")
"""Rates of all cores together, of which each core brings its own."""


def measure_cpu(launch: MeasureLaunch | None = None, quiet: Sequence[int] = ()) -> Measured:
    """Measure now: time loops of our own machine code, on one core and on all that this process may use at once.

    `quiet`: numbers of cores that others leave alone. Where they are half of those that this process may use, or more,
    loops run on these, and what all cores do together is counted up; else on all. A nearer memory is never slower, and
    many cores are never slower than one: otherwise something disturbed the run.
    """
    limits = cpu_limits()
    every = limits.multiprocessors
    quiet = tuple(quiet) if 2 * len(quiet) >= every else ()
    limits = replace(limits, multiprocessors=len(quiet) or every)
    with ThreadPool(limits.multiprocessors) as threads:
        measure = Measure(threads, quiet or _cores())
        width = paying_width(limits, measure)
        with loops(width) as code:
            rates = _Measurement(limits, width, code, measure).rates()
    of_all = {name: getattr(rates, name) * every / limits.multiprocessors for name in EACH_CORES}
    rates = replace(rates, **of_all)
    seconds = None if launch is None else launch(every)
    if seconds is not None:
        rates = replace(rates, launch=seconds[0], wake=max(seconds))
    return Measured(in_ranges(rates), measure.disturbed)


def paying_width(limits: Limits, measure: Measure) -> int:
    """Bytes of the vectors that multiply and add fastest: the registers', or half as many where these clearly do.

    Where wide vectors lower the clock, or take more than two steps of narrow ones, narrow ones win.
    """
    rates = {}
    for width in (limits.register_bytes, limits.register_bytes // 2):
        if width < 16:
            continue
        with loops(width) as code:
            rates[width] = _multiply_adds(limits, width, code, measure)
    return max(rates, key=lambda width: rates[width] * (PAYS if width == limits.register_bytes else 1))


def _multiply_adds(limits: Limits, width: int, code: Loops, measure: Measure) -> float:
    cores = limits.multiprocessors
    work = [(code.multiply, (buffer(2 * width),)) for _ in range(cores)]
    return MULTIPLY_ADDS * width // 4 * cores / measure.seconds_a_step(work)


@dataclass(frozen=True)
class _Measurement:
    """One measurement of all rates, with vectors of `width` bytes."""

    limits: Limits
    width: int
    code: Loops
    measure: Measure
    memory: LargeMemory = field(default_factory=LargeMemory)

    def rates(self) -> CpuRates:
        limits, code, cores = self.limits, self.code, self.limits.multiprocessors
        clock = CHAIN_CYCLES / self.measure.seconds_a_step([(code.chain, (buffer(2 * self.width),))])
        multiply = _multiply_adds(limits, self.width, code, self.measure)
        latency = clock * self.measure.seconds_a_step([(code.wait, (buffer(2 * self.width),))]) / WAITS
        loads, stores = self._rates(("read", "store"), NEAR, 1)
        far = min(4 * limits.cache, MAX_BYTES, max(limits.memory // 8, 1 << 24))
        core_memory, beside_memory, past_memory = self._rates(("read", "multiply_read", "copy_past"), far, 1)
        (near,) = self._rates(("multiply_read",), NEAR, 1)
        memory, stored, past = self._read_and_written(min(far * cores, MAX_BYTES), cores)
        memory = max(core_memory, memory)
        size = BEYOND * limits.shared * cores
        if size > limits.cache:
            size = max(limits.cache // 2, 2 * limits.shared * cores)
        core_cache, beside_cache, past_cache = self._rates(("read", "multiply_read", "copy_past"), size // cores, 1)
        waited_3, waited = (
            max(0.0, rate * (1 / both - 1 / near) - OVERLAP)
            for rate, both in ((core_cache, beside_cache), (core_memory, beside_memory))
        )
        cache, stored_3, past_3 = self._read_and_written(size, cores)
        past_3_alone, past_alone = _written(core_cache, past_cache), _written(core_memory, past_memory)
        core_cache, cache = max(core_cache, core_memory), max(cache, core_cache, memory)
        # Less what the model counts for memory.
        past_3 = max(0.0, past_3 - OVERLAP * past * cache / memory)
        past_3_alone = max(0.0, past_3_alone - OVERLAP * past_alone * core_cache / core_memory)
        past_store, past_straight = (
            clock * self._past_store(name, min(far, PAST), core_memory / max(past, 0.1))
            for name in ("work", "straight")
        )
        shared, stored_2, _ = self._read_and_written(limits.shared // 2 * cores, cores)
        shared = max(cache, shared)
        return CpuRates(
            clock=clock, memory=memory, core_memory=core_memory, cache=cache, core_cache=core_cache, shared=shared,
            multiply_adds=multiply, register_bytes=self.width, loads=loads / self.width / clock,
            stores=stores / self.width / clock, latency=latency, stored_2=stored_2, stored_3=stored_3, stored=stored,
            past_3=past_3, past=past, past_3_alone=past_3_alone, past_alone=past_alone,
            past_store=past_store, past_straight=past_straight,
            cache_share=self._cache_share(size, cache, memory), launch=LAUNCH_SECONDS, wake=WAKE_SECONDS,
            waited_3=waited_3, waited=waited, **self._accesses(clock, size // cores, far).costs(),
            **self._instructions(clock, size // cores),
        )  # fmt: skip

    def _accesses(self, clock: float, middle: int, far: int) -> AccessMeasurement:
        def cycles(loop: Callable[..., None], values: Sequence[Any]) -> float:
            return clock * self.measure.seconds_a_step([(loop, values)])

        code, shared = self.code, self.limits.shared
        (beyond,) = self.memory.arrays(far)
        return AccessMeasurement(code, cycles, self.width, buffer(NEAR), buffer(middle), beyond, shared)

    def _instructions(self, clock: float, middle: int) -> dict[str, float]:
        """Costs of instructions; those of what this processor has not are its family's."""

        def cycles(loop: Callable[..., None], values: Sequence[Any]) -> float:
            return clock * self.measure.seconds_a_step([(loop, values)])

        family = family_cpu_rates()
        costs = {name: getattr(family, name) for name in OF_INSTRUCTIONS}
        matrix = any(DOT_UNITS[name].is_matrix for name in self.limits.dot_units)
        arrays = buffer(NEAR), buffer(middle), buffer(middle // 2)
        with more_loops(self.width, matrix) as code:
            costs |= InstructionMeasurement(self.code, code, cycles, self.width, *arrays).costs()
        if self.limits.multiprocessors > 1:
            costs["contended"] = self._contended(clock)
        return costs

    def _contended(self, clock: float) -> float:
        """Cycles of an atomic addition to a line that another core adds to as well, of each of two."""
        shared, places = buffer(NEAR), np.full(ATOMICS * ADDED, LINE // 4, np.int32)
        work = [(self.code.atomic, (shared, places, ATOMICS))] * 2
        return clock * self.measure.seconds_a_step(work) / (2 * places.size)

    def _read_and_written(self, total: int, cores: int) -> tuple[float, float, float]:
        """Bytes a second that `cores` cores read of `total` bytes; what a byte that they write takes beside one that
        they read, and the same past the caches, where half of the bytes are copied to the other half."""
        read, copied, past = self._rates(("read", "copy", "copy_past"), total, cores)
        return read, _written(read, copied), _written(read, past)

    def _past_store(self, name: str, far: int, most: float) -> float:
        """Seconds that a store past the caches takes beside a loop's arithmetic more than one to the nearest cache, or
        than memory takes for it, which takes `most` bytes a second."""
        (near,), (past,) = self._rates((name,), NEAR, 1), self._rates((f"{name}_past",), far, 1)
        return self.width * max(0.0, 1 / past - max(1 / near, 1 / most))

    def _cache_share(self, size: int, cache: float, memory: float) -> float:
        """Part of the last cache in which all cores together find data again, at least half of the time: that of `size`
        bytes, or of some power of two times as many."""
        limits = self.limits
        if cache < AGREE * memory:  # nothing to tell them apart by
            return LAST_CACHE_SHARE
        middle = (cache * memory) ** 0.5
        while 2 * size <= limits.cache:
            if self._rates(("read",), 2 * size, limits.multiprocessors)[0] < middle:
                break
            size *= 2
        return min(1.0, size / limits.cache)

    def _rates(self, names: Sequence[str], total: int, cores: int) -> list[float]:
        """Bytes a second that `cores` cores read or write by these loops, each its own part of `total` bytes,
        repeatedly; of a copy, both together."""
        block = LOADED_VECTORS * self.width
        blocks = max(2, total // cores // block) // 2 * 2
        steps = {"copy": blocks // 2, "copy_past": blocks // 2}
        steps |= dict.fromkeys(("work", "work_past"), blocks * LOADED_VECTORS)
        memory = self.memory.arrays(blocks * block, cores)
        works = [[(getattr(self.code, name), (each, steps.get(name, blocks))) for each in memory] for name in names]
        return [blocks * block * cores / self.measure.seconds_a_step(work) for work in works]


def _written(read: float, copied: float) -> float:
    """What a byte that is written takes beside one that is read, by bytes a second that are read, and that are copied:
    half of these are read."""
    return max(0.0, 2 * read / copied - 1)


Work = tuple[Callable[..., None], Sequence[Any]]
"""A loop, and its arguments before the number of steps: arrays and numbers."""
Run = tuple[bool, float]
"""Whether others disturbed a run, and its seconds."""


class Measure:
    """Times loops that run on several threads at once. `cores`: the numbers of those to run on, none where threads
    cannot be placed. `disturbed`: whether something was interrupted in every run."""

    def __init__(self, threads: ThreadPool, cores: Sequence[int] = ()):
        self._threads, self._cores = threads, cores
        self.disturbed = False

    def seconds_a_step(self, work: Sequence[Work]) -> float:
        """Seconds that one step takes, of the fastest round, once enough steps run to be timed."""
        steps = 1
        while (first := self._fastest(work, steps, 1))[1] < SECONDS / 4 and steps < 1 << 40:
            steps *= 4
        enough = max(1, round(steps * SECONDS / first[1]))
        rounds = LONG_ROUNDS if first[1] * enough / steps > LONG_SECONDS else ROUNDS
        disturbed, taken = self._fastest(work, enough, rounds, *([first] if enough == steps else []))
        self.disturbed = self.disturbed or disturbed
        return taken / enough

    def _fastest(self, work: Sequence[Work], steps: int, rounds: int, *before: Run) -> Run:
        """Of so many rounds that nothing disturbs, and those that ran `before`, the fastest, or the fastest of all."""
        runs = list(before)
        most = rounds if self.disturbed else rounds * MOST_ROUNDS // ROUNDS  # a disturbed rate lets none count
        while len(runs) < most and sum(not disturbed for disturbed, _ in runs) < rounds:
            runs.append(self._run(work, steps))
        return min(runs)

    def _run(self, work: Sequence[Work], steps: int) -> Run:
        """Whether others had the cores of too many threads for a time, and the seconds from the first start to the last
        end, of the threads that had their cores to themselves if these are enough."""
        together = threading.Barrier(len(work))
        cores = self._cores

        def run(number: int, function: Callable[..., None], values: Sequence[Any]) -> tuple[bool, float, float]:
            addresses = [value if isinstance(value, int) else value.ctypes.data for value in values]
            if cores:  # one thread for each: the system may take long to spread them
                os.sched_setaffinity(0, {cores[number]} if len(work) == len(cores) else cores)
            together.wait()
            start, ran = time.perf_counter(), time.thread_time()
            function(*addresses, steps)
            ran, end = time.thread_time() - ran, time.perf_counter()
            return end - start > INTERRUPTED * ran + LATE, start, end

        times = list(self._threads.map(lambda numbered: run(numbered[0], *numbered[1]), enumerate(work)))
        alone = [(start, end) for interrupted, start, end in times if not interrupted]
        disturbed = len(alone) < TOGETHER * len(times)
        counted = [(start, end) for _, start, end in times] if disturbed else alone
        return disturbed, max(end for _, end in counted) - min(start for start, _ in counted)


@functools.cache
def _cores() -> tuple[int, ...]:
    """The numbers of the cores that this process may use, in order; none where threads cannot be placed."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_setaffinity") else ()
