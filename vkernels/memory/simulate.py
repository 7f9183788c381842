"""Simulate an iteration under a schedule: operations on the device, and transfers on each link and direction.

An operation starts when the previous one has ended, its tensors are on the device and there is room for its results. A
link carries transfers in the order in which they were queued. A fetch starts when there is room; memory is freed when a
copy is complete. Operations take room before fetches do. `schedule_check.check` rules out deadlocks. Deterministic.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from .exchanges import Exchange
from .links import MemoryMachine
from .schedule import SwapSchedule
from .schedule_check import check
from .simulate_engine import Engine, Log, SimulationInput, Timeline
from .simulate_moves import MovingEngine
from .trace import MemoryTrace

ITERATIONS = 8
"""Maximum iterations until one takes as long as the previous one."""
SAME = 1e-9
"""Relative difference of two times that count as the same."""


@dataclass(frozen=True)
class SimulatedRun:
    """A steady iteration. Seconds.

    `stalls`: by operation, its wait for tensors or room. `peak`: the most bytes on the device at any moment. `events`:
    simulated starts and ends of operations and transfers, in all iterations.
    """

    seconds: float
    ideal_seconds: float
    stalls: tuple[float, ...]
    peak: int
    events: int
    steady: bool
    timeline: Timeline | None = None

    @property
    def fraction(self) -> float:
        """The speed relative to a device with enough memory."""
        return self.ideal_seconds / self.seconds if self.seconds else 1.0


def simulate(
    trace: MemoryTrace,
    schedule: SwapSchedule,
    machine: MemoryMachine,
    seconds: Sequence[float] | None = None,
    timeline: bool = False,
    exchanges: Sequence[Exchange] = (),
) -> SimulatedRun:
    """Run the schedule until an iteration takes as long as the previous one.

    `seconds`: of the operations, if not those of the trace. `exchanges`: with another device, not in
    the timeline. Raises `MemoryPlanError` for an invalid schedule.
    """
    check(trace, schedule, machine)
    return run(SimulationInput(trace, machine, exchanges), schedule, seconds, timeline)


def run(
    prepared: SimulationInput, schedule: SwapSchedule, seconds: Sequence[float] | None = None, timeline: bool = False
) -> SimulatedRun:
    """`simulate` without checking the schedule, for many schedules of one trace."""
    kind = MovingEngine if schedule.has_moves else Engine
    engine = kind(prepared, schedule, list(seconds) if seconds is not None else prepared.seconds)
    before, steady = -inf, False
    for _ in range(ITERATIONS):
        took, stalls = engine.iterate()
        if abs(took - before) <= SAME * took:
            steady = True
            break
        before = took
    line = None
    if timeline:
        engine.log = Log()
        took, stalls = engine.iterate()
        line = engine.log.timeline()
    ideal = sum(prepared.seconds if seconds is None else seconds)
    peak = prepared.machine.device_bytes - engine.least_free
    return SimulatedRun(took, ideal, tuple(stalls), peak, engine.events, steady, line)
