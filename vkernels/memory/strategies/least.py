"""How little device memory does without any slow-down."""

from __future__ import annotations

from dataclasses import dataclass

from vkernels.ir.errors import MemoryPlanError

from ..links import MemoryMachine
from ..schedule import SwapSchedule
from ..schedule_check import least_bytes
from ..simulate import simulate
from ..trace import MemoryTrace
from .search import GOOD, search

STEPS = 10
"""Halvings: the answer is within a thousandth of the peak."""


@dataclass(frozen=True)
class Saving:
    """`device_bytes` are enough under `schedule`, of `peak` without one."""

    peak: int
    device_bytes: int
    schedule: SwapSchedule

    @property
    def part(self) -> float:
        """Of the peak: what is saved."""
        return 1 - self.device_bytes / self.peak if self.peak else 0.0


def largest_saving(
    trace: MemoryTrace, machine: MemoryMachine, slower: float = 2 * GOOD, rounds: int = 1, trials: int = 6
) -> Saving:
    """The least device memory found with which an iteration takes at most `slower` of its ideal time longer; what less
    would do is not ruled out. The machine's own device memory plays no part."""
    best = Saving(trace.peak, trace.peak, SwapSchedule())
    low, high = least_bytes(trace)[0], trace.peak
    for _ in range(STEPS):
        if low >= high:
            break
        middle = (low + high) // 2
        tried = machine.with_device(middle)
        try:
            schedule = search(trace, tried, rounds, trials, others=())
            good = simulate(trace, schedule, tried).seconds <= trace.seconds * (1 + slower)
        except MemoryPlanError:
            good = False
        if good:
            best, high = Saving(trace.peak, middle, schedule), middle
        else:
            low = middle + 1
    return best
