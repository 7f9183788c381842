"""Schedules made and simulated, with word of how far that is."""

from __future__ import annotations

from collections.abc import Callable

from vkernels.ir.errors import MemoryPlanError
from vkernels.runtime.memory.links import Machine
from vkernels.runtime.memory.schedule import Schedule
from vkernels.runtime.memory.schedule_check import check_possible
from vkernels.runtime.memory.simulate import Run, simulate
from vkernels.runtime.memory.strategies import PUBLISHED, search
from vkernels.runtime.memory.strategies.search import Judged
from vkernels.runtime.memory.trace import Trace

OURS = "ours"


def ours(trace: Trace, machine: Machine, tell: Callable[[str], None]) -> tuple[Schedule, Run]:
    """The best schedule found, and its iteration with its timeline. Raises `MemoryPlanError` where there is none."""
    tried, best = 0, 0.0

    def judged(each: Judged) -> None:
        nonlocal tried, best
        tried += 1
        best = max(best, trace.seconds / each.seconds if each.seconds else 1.0)
        tell(f"looking for a schedule: {tried} tried, the best at {best:.4f} of the ideal")

    schedule = search(trace, machine, on_judged=judged)
    return schedule, simulate(trace, schedule, machine, timeline=True)


def all_strategies(
    trace: Trace, machine: Machine, tell: Callable[[str], None]
) -> tuple[list[tuple[str, Schedule, Run]], dict[str, str]]:
    """Every published strategy and the project's own, and those that found none, with the reason.

    Raises `MemoryPlanError` where no schedule could do.
    """
    check_possible(trace, machine)
    found, refused = [], {}
    for name, strategy in PUBLISHED.items():
        tell(f"simulating {name}")
        try:
            schedule = strategy(trace, machine)
            found.append((name, schedule, simulate(trace, schedule, machine, timeline=True)))
        except MemoryPlanError as error:
            refused[name] = str(error)
    return [*found, (OURS, *ours(trace, machine, tell))], refused
