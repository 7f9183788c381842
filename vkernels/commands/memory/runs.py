"""Compute and simulate schedules, with progress reports."""

from __future__ import annotations

from collections.abc import Callable

from vkernels.ir.errors import MemoryPlanError
from vkernels.memory.links import MemoryMachine
from vkernels.memory.schedule import SwapSchedule
from vkernels.memory.schedule_check import check_possible
from vkernels.memory.simulate import SimulatedRun, simulate
from vkernels.memory.strategies import PUBLISHED, search
from vkernels.memory.strategies.search import JudgedSchedule
from vkernels.memory.trace import MemoryTrace

OURS = "ours"


def ours(
    trace: MemoryTrace, machine: MemoryMachine, report: Callable[[str], None]
) -> tuple[SwapSchedule, SimulatedRun]:
    """Search for a schedule and simulate it with its timeline. Raises `MemoryPlanError` if there is none."""
    tried, best = 0, 0.0

    def judged(each: JudgedSchedule) -> None:
        nonlocal tried, best
        tried += 1
        best = max(best, trace.seconds / each.seconds if each.seconds else 1.0)
        report(f"looking for a schedule: {tried} tried, the best at {best:.4f} of the ideal")

    schedule = search(trace, machine, on_judged=judged)
    return schedule, simulate(trace, schedule, machine, timeline=True)


def all_strategies(
    trace: MemoryTrace, machine: MemoryMachine, report: Callable[[str], None]
) -> tuple[list[tuple[str, SwapSchedule, SimulatedRun]], dict[str, str]]:
    """Simulate every published strategy and our own; also return the strategies that failed, with the reason.

    Raises `MemoryPlanError` if no schedule is possible.
    """
    check_possible(trace, machine)
    found, refused = [], {}
    for name, strategy in PUBLISHED.items():
        report(f"simulating {name}")
        try:
            schedule = strategy(trace, machine)
            found.append((name, schedule, simulate(trace, schedule, machine, timeline=True)))
        except MemoryPlanError as error:
            refused[name] = str(error)
    return [*found, (OURS, *ours(trace, machine, report))], refused
