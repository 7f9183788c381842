"""How long an iteration takes under a schedule: operations on the device, transfers on each link and direction.

An operation starts when the one before it has ended, its tensors are here and there is room for those that it makes. A
link carries its transfers in the order in which they were asked for. A fetch starts when there is room; memory is given
back when a copy is complete. An operation takes room before a fetch does. `schedule_check.check` shows that this cannot
get stuck. The same inputs give the same times, always.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf

from .links import MemoryMachine
from .schedule import SwapSchedule
from .schedule_check import check
from .simulate_engine import Engine, SimulationInput
from .simulate_log import Log, Timeline
from .trace import MemoryTrace

ITERATIONS = 8
"""At most so many are run until one takes as long as the one before."""
SAME = 1e-9
"""Of an iteration's time: less apart is the same."""


@dataclass(frozen=True)
class SimulatedRun:
    """A steady iteration. Seconds.

    `stalls`: by operation, what it waited for tensors or for room. `peak`: the most bytes on the device at any moment.
    `events`: starts and ends of operations and transfers that were simulated, all iterations together.
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
        """Of the ideal: how fast it is beside a device with memory enough."""
        return self.ideal_seconds / self.seconds if self.seconds else 1.0


def simulate(
    trace: MemoryTrace,
    schedule: SwapSchedule,
    machine: MemoryMachine,
    seconds: Sequence[float] | None = None,
    timeline: bool = False,
) -> SimulatedRun:
    """Run the schedule until an iteration takes as long as the one before. `seconds`: what operations really take,
    where that is not what the trace says. Raises `MemoryPlanError` for a schedule that cannot be kept."""
    check(trace, schedule, machine)
    return run(SimulationInput(trace, machine), schedule, seconds, timeline)


def run(
    prepared: SimulationInput, schedule: SwapSchedule, seconds: Sequence[float] | None = None, timeline: bool = False
) -> SimulatedRun:
    """`simulate` for a schedule that is known to be right: for many schedules of one trace."""
    engine = Engine(prepared, schedule, list(seconds) if seconds is not None else prepared.seconds)
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
