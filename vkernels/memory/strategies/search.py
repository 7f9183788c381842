"""Our own schedule: many are made and the simulator judges. Each round puts a price on the moments at which operations
waited for a link, and fetches earlier what came late."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import product

import numpy as np

from vkernels.ir.errors import MemoryPlanError

from ..bound import lower_bound
from ..links import MemoryMachine
from ..schedule import SwapSchedule
from ..schedule_check import check, check_possible
from ..schedule_rooms import Numbers
from ..simulate import SimulatedRun, run
from ..simulate_engine import SimulationInput
from ..trace import MemoryTrace
from .autoswap import aoa, doa, swdoa, wdoa
from .draft import Draft
from .g10 import EAGER, g10
from .on_demand import on_demand
from .pick import Picker
from .trade import trade

ROUNDS = 6
"""Of prices, for each of the better ways to begin."""
TRIALS = 60
"""Of trading places, for each way to fetch."""
GOOD = 1e-6
"""Of the ideal time: a schedule that waits less than this is as good as any."""
WIDTH = 100
"""Parts of an iteration: a price that is put on one moment is put on about one of these around it."""

LEADS = (0.0, EAGER)
"""Fetching in time, and as soon as there is room."""

Strategy = Callable[[MemoryTrace, MemoryMachine], SwapSchedule]
PUBLISHED: dict[str, Strategy] = {
    "unified memory": on_demand,
    "AutoSwap DOA": doa,
    "AutoSwap AOA": aoa,
    "AutoSwap WDOA": wdoa,
    "AutoSwap SWDOA": swdoa,
    "G10": g10,
}
"""What others do, as re-implemented here, by name."""


@dataclass(frozen=True)
class JudgedSchedule:
    """A schedule, what it takes, and the draft that it came from, if that can still be traded with."""

    schedule: SwapSchedule
    seconds: float
    moved: int
    draft: Draft | None = None

    @property
    def order(self) -> tuple[float, int]:
        """The least first: time, and where that is the same, bytes moved."""
        return self.seconds, self.moved


def search(
    trace: MemoryTrace,
    machine: MemoryMachine,
    rounds: int = ROUNDS,
    trials: int = TRIALS,
    others: Iterable[Strategy] | None = None,
    on_judged: Callable[[JudgedSchedule], None] | None = None,
) -> SwapSchedule:
    """The best schedule found. It is no worse than those of `others`: all published ones if nothing is said. The same
    call finds the same, always. `on_judged` is told of each that was simulated. Raises `MemoryPlanError` where there
    can be none."""
    check_possible(trace, machine)
    best: JudgedSchedule | None = None
    enough = lower_bound(trace, machine).seconds * (1 + GOOD)
    rivals = PUBLISHED.values() if others is None else others
    for judged in _all(trace, machine, rounds, trials, rivals):
        if on_judged is not None:
            on_judged(judged)
        if best is None or judged.order < best.order:
            best = judged
        if best.seconds <= enough:
            break
    if best is None:
        raise MemoryPlanError("no schedule was found")
    check(trace, best.schedule, machine)
    return best.schedule


def judge(
    trace: MemoryTrace, machine: MemoryMachine, schedule: SwapSchedule, draft: Draft | None = None
) -> JudgedSchedule:
    """What a schedule takes, to a millionth."""
    took = run(SimulationInput(trace, machine), schedule)
    step = trace.seconds * GOOD or 1.0
    return JudgedSchedule(schedule, round(took.seconds / step) * step, sum(schedule.moved(trace)), draft)


def _all(
    trace: MemoryTrace, machine: MemoryMachine, rounds: int, trials: int, others: Iterable[Strategy]
) -> Iterator[JudgedSchedule]:
    """Ways to begin, then rounds of prices on the better ones, then trades on the best; the quick ones first."""
    found = []
    if trace.peak <= machine.device_bytes:
        yield judge(trace, machine, SwapSchedule())
        return
    pricings = [_Pricing(trace, machine, *way) for way in product((True, False), (False, True))]
    for pricing in pricings:
        for judged in pricing.round():
            found.append(judged)
            yield judged
    for other in others:
        with suppress(MemoryPlanError):  # what another cannot do says nothing of ours
            schedule = other(trace, machine)
            check(trace, schedule, machine)
            yield judge(trace, machine, schedule)
    pricings.sort(key=lambda each: each.best)
    for _ in range(rounds):
        for pricing in pricings[: len(pricings) // 2]:
            for judged in pricing.round():
                found.append(judged)
                yield judged
    draft = min((each for each in found if each.draft is not None), key=lambda each: each.order).draft
    assert draft is not None
    for lead in LEADS:
        for schedule in trade(draft, lead, trials):
            yield judge(trace, machine, schedule)


class _Pricing:
    """One way to choose, and what moments cost so far."""

    def __init__(self, trace: MemoryTrace, machine: MemoryMachine, early: bool, flash_first: bool):
        self.trace, self.machine, self.early, self.flash_first = trace, machine, early, flash_first
        count = len(trace.operations)
        self.out, self.back = np.zeros(count), np.zeros(count)
        self.more: dict[tuple[int, int], float] = {}
        self.best = float("inf")

    def round(self) -> Iterator[JudgedSchedule]:
        """Schedules at today's prices; then the prices change by where the best of them waited."""
        draft = Draft(self.trace, self.machine, self.early)
        Picker(draft, self.out, self.back, self.flash_first).pick()
        draft.cover()
        found = []
        for spare in (False, True):
            if spare:
                draft.spare()
            for lead in LEADS:
                schedule = draft.schedule(lead, self.more)
                found.append(judge(self.trace, self.machine, schedule, draft if spare else None))
                yield found[-1]
        least = min(found, key=lambda each: each.order)
        self.best = min(self.best, least.seconds)
        self._learn(least.schedule)

    def _learn(self, schedule: SwapSchedule) -> None:
        took = run(SimulationInput(self.trace, self.machine), schedule, timeline=True)
        assert took.timeline is not None
        count, total = len(self.trace.operations), sum(took.stalls)
        if not total:
            return
        late = {each.absence: each.end for each in took.timeline.transfers if each.link >= 2}
        out, back = np.zeros(count), np.zeros(count)
        for number, each in enumerate(schedule.absences):
            need = each.next % count
            stall = took.stalls[need]
            if stall > 0 and number in late and late[number] >= took.timeline.starts[need] - GOOD * self.trace.seconds:
                key = (each.tensor, each.leave)
                self.more[key] = self.more.get(key, 0.0) + stall
                back[(each.next - 1) % count] += stall / total
        self._price_copies(schedule, took, out, total)
        self.out += _spread(out)
        self.back += _spread(back)

    def _price_copies(self, schedule: SwapSchedule, took: SimulatedRun, out: Numbers, total: float) -> None:
        """Copies under way while an operation waits cost more."""
        assert took.timeline is not None
        count = len(out)
        ends = sorted((each.start, each.end, each.absence) for each in took.timeline.transfers if each.link < 2)
        for at, stall in enumerate(took.stalls):
            if stall <= 0:
                continue
            start = took.timeline.starts[at]
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
