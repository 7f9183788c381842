"""Our own schedule: many are made and the simulator judges. Each round puts a price on the moments at which operations
waited for a link, and fetches earlier what came late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from vkernels.ir.errors import MemoryPlanError

from ..links import Machine, Tier
from ..schedule import Schedule
from ..schedule_rooms import Numbers
from ..simulate import Run, simulate
from ..trace import Trace
from .draft import Draft
from .g10 import EAGER
from .pick import Picker

ROUNDS = 40
"""Of prices, at most, for each way to begin."""
GOOD = 1e-6
"""Of the ideal time: a schedule that waits less than this is as good as any."""
WIDTH = 100
"""Parts of an iteration: a price that is put on one moment is put on about one of these around it."""

Strategy = Callable[[Trace, Machine], Schedule]


@dataclass(frozen=True)
class Judged:
    """A schedule, and what it takes."""

    schedule: Schedule
    seconds: float
    moved: int

    @property
    def order(self) -> tuple[float, int]:
        """The least first: time, and where that is the same, bytes moved."""
        return self.seconds, self.moved


def search(trace: Trace, machine: Machine, rounds: int = ROUNDS, others: tuple[Strategy, ...] = ()) -> Schedule:
    """The best schedule found. It is no worse than those of `others`. The same call finds the same, always. Raises
    `MemoryPlanError` where there can be none."""
    ideal = trace.seconds
    best: Judged | None = None
    for judged in _all(trace, machine, rounds, others):
        if best is None or judged.order < best.order:
            best = judged
        if best.seconds <= ideal * (1 + GOOD):
            break
    assert best is not None
    return best.schedule


def judge(trace: Trace, machine: Machine, schedule: Schedule) -> Judged:
    """What a schedule takes, to a millionth."""
    run = simulate(trace, schedule, machine)
    step = trace.seconds * GOOD or 1.0
    return Judged(schedule, round(run.seconds / step) * step, sum(schedule.moved(trace)))


def _all(trace: Trace, machine: Machine, rounds: int, others: tuple[Strategy, ...]) -> Iterator[Judged]:
    """Ways to begin, each with rounds of prices; the quick ones first."""
    ways = [(early, flash_first) for early in (True, False) for flash_first in (False, True)]
    pricings = [_Pricing(trace, machine, *way) for way in ways]
    for pricing in pricings:
        yield from pricing.round()
    for other in others:
        try:
            yield judge(trace, machine, other(trace, machine))
        except MemoryPlanError:
            continue
    pricings.sort(key=lambda each: each.best)
    for _ in range(rounds):
        for pricing in pricings[:2]:
            yield from pricing.round()


class _Pricing:
    """One way to choose, and what moments cost so far."""

    def __init__(self, trace: Trace, machine: Machine, early: bool, flash_first: bool):
        self.trace, self.machine, self.early, self.flash_first = trace, machine, early, flash_first
        count = len(trace.operations)
        self.out, self.back = np.zeros(count), np.zeros(count)
        self.more: dict[tuple[int, int], float] = {}
        self.best = float("inf")

    def round(self) -> Iterator[Judged]:
        """Schedules at today's prices; then the prices change by where the best of them waited."""
        draft = Draft(self.trace, self.machine, self.early)
        Picker(draft, self.out, self.back, self.flash_first).pick()
        draft.cover()
        found = []
        for spare in (False, True):
            if spare:
                draft.spare()
            for lead in (0.0, EAGER):
                found.append(judge(self.trace, self.machine, draft.schedule(lead, self.more)))
                yield found[-1]
        least = min(found, key=lambda each: each.order)
        self.best = min(self.best, least.seconds)
        self._learn(least.schedule)

    def _learn(self, schedule: Schedule) -> None:
        run = simulate(self.trace, schedule, self.machine, timeline=True)
        assert run.timeline is not None
        count, total = len(self.trace.operations), sum(run.stalls)
        if not total:
            return
        late = {each.absence: each.end for each in run.timeline.transfers if each.link >= 2}
        out, back = np.zeros(count), np.zeros(count)
        for number, each in enumerate(schedule.absences):
            need = each.next % count
            stall = run.stalls[need]
            if stall > 0 and number in late and late[number] >= run.timeline.starts[need] - GOOD * self.trace.seconds:
                key = (each.tensor, each.leave)
                self.more[key] = self.more.get(key, 0.0) + stall
                back[(each.next - 1) % count] += stall / total
        self._price_copies(schedule, run, out, total)
        self.out += _spread(out)
        self.back += _spread(back)

    def _price_copies(self, schedule: Schedule, run: Run, out: Numbers, total: float) -> None:
        """Copies under way while an operation waits cost more."""
        assert run.timeline is not None
        count = len(out)
        ends = sorted((each.start, each.end, each.absence) for each in run.timeline.transfers if each.link < 2)
        for at, stall in enumerate(run.stalls):
            if stall <= 0:
                continue
            start = run.timeline.starts[at]
            for begun, ended, number in ends:
                copy = schedule.absences[number].copy
                if begun < start and ended > start - stall and copy is not None:
                    out[(copy + 1) % count] += (min(ended, start) - max(begun, start - stall)) / total


def _spread(prices: Numbers) -> Numbers:
    """Each price also counts around its moment."""
    width = max(1, len(prices) // WIDTH)
    window = np.ones(2 * width + 1)
    wrapped = np.concatenate([prices[-width:], prices, prices[:width]])
    return np.convolve(wrapped, window, mode="valid")[: len(prices)]


__all__ = ["Judged", "Strategy", "Tier", "judge", "search"]
