"""Simulated tasks beside measured ones: p50 and p99 of calls of high priority beside a task of low priority.

Durations and gaps of both tasks are recorded alone; what they cost each other's caches and bandwidth is as modelled.
The simulation of the pair is compared with the pair itself. Both are of `SLICES` short slices in turns, so that other
load falls on all of them; the first call of a slice does not count. How far the pair's quantiles are known at all is
told by what they were in every second slice over the others.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
from common import Quartiles
from coordinator_contracts import durations
from coordinator_tasks import HIGH, LOW, Beside

import vkernels as vk
from vkernels.compiler.compilation import Compilation
from vkernels.inspect.latency import TURN, Call
from vkernels.ir.planning.beside import refetch_seconds, slowdown
from vkernels.runtime.coordinator.priority import Level
from vkernels.runtime.coordinator.simulate import SimulatedTask, simulate
from vkernels.runtime.events import LaunchRecord
from vkernels.runtime.observed_calls import See, observe, stop_observing
from vkernels.runtime.pool_priority_ir import HAND_OVER_SECONDS
from vkernels.targets.host_cpu import usable_cores

SIMULATED_SECONDS = 2.0
SLICES = 6
"""Of a round, an even number."""
PARTS = (0.5, 0.99)


@dataclass
class Recorded:
    """Durations and gaps of a task's calls, and what was compiled for them."""

    took: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    compilation: Compilation | None = None
    _ended: float | None = None
    _is_first: bool = False

    def begin(self) -> None:
        """A slice begins."""
        self._ended, self._is_first = None, True

    def watch(self, compilation: Compilation, record: LaunchRecord) -> See:
        self.compilation = compilation

        def see(start: float, end: float, is_alone: bool) -> None:
            if self._ended is not None:
                self.gaps.append(start - self._ended)
            if not self._is_first:
                self.took.append(end - start)
            self._ended, self._is_first = end, False

        return see


def record(found: Recorded, call: Callable[[], object], seconds: float, gap: float | None, priority: Level) -> None:
    """Record a slice of a task alone, and two gaps at least: with a sleep between calls, or in a loop where there is no
    gap."""
    found.begin()
    observe(found)
    begin, calls = time.perf_counter(), 0
    with vk.priority(priority):
        while time.perf_counter() - begin < seconds or calls < 3:
            call()
            calls += 1
            if gap is not None:
                time.sleep(gap)
    stop_observing(found)


def tasks_of(high: Recorded, low: Recorded) -> list[SimulatedTask]:
    """Both as the simulator takes them. Long calls of low priority are in the system's idle class: it takes their cores
    at once. Short ones give them up after a turn."""
    assert high.compilation is not None
    assert low.compilation is not None
    one, other = Call.of(high.compilation), Call.of(low.compilation)
    assert one.demand is not None
    assert other.demand is not None
    spaces = [each.compilation.plans.space for each in (one, other)]
    turn = TURN if float(np.median(low.took)) < HAND_OVER_SECONDS else 0.0
    return [
        SimulatedTask(
            "high", "high", high.took, high.gaps, one.threads,
            slower={"low": slowdown(spaces[0], one.plan, [other.demand])}, begins_with_core=True,
            refetched=refetch_seconds(one.demand, [other.demand], one.limits, float(np.median(high.gaps))),
        ),
        SimulatedTask(
            "low", "low", low.took, low.gaps, other.threads, turn,
            slower={"high": slowdown(spaces[1], other.plan, [one.demand])},
        ),
    ]  # fmt: skip


def simulated(seconds: float, rounds: int, gap: float, only: str) -> Iterator[str]:
    """A line for each pair: simulated over measured, medians of the rounds with their quartiles."""
    yield f"| high | low |{' p{} measured | again / measured | simulated / measured |' * 2}".format(50, 99)
    yield "|---|---|" + "---|" * 6
    within = []
    for high_name in HIGH:
        for low_name in LOW:
            if only not in f"{high_name} {low_name}":
                continue
            high, low = HIGH[high_name](), Beside(low_name, ctypes.c_int64())
            with vk.patient():
                high()
            measured = list[list[float]]()
            again, ratios = list[list[float]](), list[list[float]]()
            for number in range(rounds):
                alone, other, took = Recorded(), Recorded(), list[list[float]]()
                for _ in range(SLICES):
                    record(alone, high, seconds / SLICES, gap, "high")
                    record(other, low.call, seconds / SLICES, None, "low")
                    took.append(durations(high, low, seconds / SLICES, gap, 3)[1:])
                if not (alone.took and other.took and all(took)):
                    raise SystemExit(f"{high_name}, {low_name}: no call was recorded; give --seconds more")
                calls, _ = simulate(tasks_of(alone, other), usable_cores(), SIMULATED_SECONDS, number)
                first, second = (list(chain(*took[each::2])) for each in range(2))
                measured.append([float(np.quantile(first + second, part)) for part in PARTS])
                again.append([float(np.quantile(second, part) / np.quantile(first, part)) for part in PARTS])
                ratios.append([calls.quantile(part) / got for part, got in zip(PARTS, measured[-1], strict=True)])
            shown = []
            for number in range(2):
                times, known, ratio = (Quartiles.of([each[number] for each in of]) for of in (measured, again, ratios))
                within.append((number, abs(ratio.median - 1) <= 0.15))
                shown.append(f"{1e6 * times.median:.0f} µs | {as_text(known)} | {as_text(ratio)}")
            yield f"| {high_name} | {low_name} | {' | '.join(shown)} |"
    yield ""
    for number, name in enumerate(("p50", "p99")):
        good = [is_good for of, is_good in within if of == number]
        yield f"{name}: {sum(good)} of {len(good)} pairs within 15 %"


def as_text(ratio: Quartiles) -> str:
    return f"{ratio.median:.2f} ({ratio.lower:.2f}–{ratio.upper:.2f})"
