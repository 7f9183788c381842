"""Our own strategy: simulate many schedules and keep the best.

Each round raises the price of moments at which operations waited for a link, and fetches late tensors earlier.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from vkernels.ir.errors import MemoryPlanError

from ..bound import lower_bound
from ..links import MemoryMachine, Tier
from ..schedule import SwapSchedule
from ..schedule_check import check, check_possible, least_bytes
from ..simulate import run, simulate
from ..simulate_engine import FROM_HOST, SimulationInput
from ..trace import MemoryTrace
from .autoswap import aoa, doa, learned, swdoa, wdoa
from .draft import BookedDraft, Draft, Numbers
from .g10 import EAGER, g10
from .moves import with_moves
from .on_demand import on_demand
from .relieve import relieve
from .trade import trade

ROUNDS = 6
"""Rounds of prices for each of the better starts."""
TRIALS = 60
"""Exchanges to try, of each kind and for each lead."""
STARTS = 2
"""Drafts from which `relieve` starts, beside the best one in which all choices are needed, from which `trade` does."""
GOOD = 1e-6
"""A schedule that waits for less than this part of the ideal time is good enough."""
WIDTH = 100
"""A price is spread over about this fraction of an iteration on both sides."""
CLOSE = 0.97
"""A candidate is chosen if its score turns out to be this part of the estimate, without comparing others again."""
STEPS = 10
"""Halvings in `largest_saving`: the answer is within a thousandth of the peak."""
NOISE, NOISY, SEED = 0.25, 12, 20261121
"""Schedules that reach the bound are compared with so many draws of the operations' times, up to this part longer or
shorter."""
LEADS = (0.0, EAGER)
"""Fetch in time, or as soon as there is room."""

Strategy = Callable[[MemoryTrace, MemoryMachine], SwapSchedule]
PUBLISHED: dict[str, Strategy] = {
    "unified memory": on_demand,
    "AutoSwap DOA": doa,
    "AutoSwap AOA": aoa,
    "AutoSwap WDOA": wdoa,
    "AutoSwap SWDOA": swdoa,
    "AutoSwap best": learned,
    "G10": g10,
}
"""Re-implemented strategies of others, by name."""


@dataclass(frozen=True)
class JudgedSchedule:
    """A simulated schedule, and its draft if exchanges can still improve it. `is_last_start`: the others are made from
    earlier ones."""

    schedule: SwapSchedule
    seconds: float
    moved: int
    draft: Draft | None = None
    is_last_start: bool = False

    @property
    def order(self) -> tuple[float, int]:
        """Sort key: time, then bytes moved."""
        return self.seconds, self.moved


def search(
    trace: MemoryTrace,
    machine: MemoryMachine,
    rounds: int = ROUNDS,
    trials: int = TRIALS,
    others: Iterable[Strategy] | None = None,
    on_judged: Callable[[JudgedSchedule], None] | None = None,
) -> SwapSchedule:
    """Return the best schedule found, which is no worse than those of `others` (default: all published ones).

    With moves between host and flash it is no worse than without them. Deterministic. `on_judged` is called with each
    simulated schedule. Raises `MemoryPlanError` if there is none.
    """
    check_possible(trace, machine)
    if machine.has_moves:
        direct = search(trace, machine.without_moves(), rounds, trials, others, on_judged)
        return _best_with_moves(trace, machine, direct, on_judged)
    best: JudgedSchedule | None = None
    enough = lower_bound(trace, machine).seconds * (1 + GOOD)
    rivals = PUBLISHED.values() if others is None else others
    good: list[JudgedSchedule] = []
    is_started = not trials
    for judged in _all(trace, machine, rounds, trials, rivals):
        if on_judged is not None:
            on_judged(judged)
        if best is None or judged.order < best.order:
            best = judged
        if judged.seconds <= enough:
            good.append(judged)
        is_started |= judged.is_last_start
        if good and is_started:
            break
    if best is None:
        raise MemoryPlanError("no schedule was found")
    if len(good) > 1:
        best = _steadiest(trace, machine, good)
    check(trace, best.schedule, machine)
    return best.schedule


def _best_with_moves(
    trace: MemoryTrace, machine: MemoryMachine, schedule: SwapSchedule,
    on_judged: Callable[[JudgedSchedule], None] | None,
) -> SwapSchedule:  # fmt: skip
    """Improve a schedule by moves between host and flash."""
    best = judge(trace, machine, schedule)
    for each in with_moves(trace, machine, schedule):
        judged = judge(trace, machine, each)
        if on_judged is not None:
            on_judged(judged)
        best = min(best, judged, key=lambda each: each.order)
    check(trace, best.schedule, machine)
    return best.schedule


def _steadiest(trace: MemoryTrace, machine: MemoryMachine, good: list[JudgedSchedule]) -> JudgedSchedule:
    """Of schedules that take the least time, the one that takes the least if operations take other times."""
    prepared, draw = SimulationInput(trace, machine), np.random.default_rng(SEED)
    factors = draw.uniform(1 - NOISE, 1 + NOISE, (NOISY, len(prepared.seconds)))
    times: list[list[float]] = (np.array(prepared.seconds) * factors).tolist()
    taken = [sum(run(prepared, each.schedule, seconds).seconds for seconds in times) for each in good]
    return good[min(range(len(good)), key=lambda number: (taken[number], good[number].moved))]


def judge(
    trace: MemoryTrace, machine: MemoryMachine, schedule: SwapSchedule, draft: Draft | None = None
) -> JudgedSchedule:
    """Simulate a schedule; round its time to a millionth."""
    took = run(SimulationInput(trace, machine), schedule)
    step = trace.seconds * GOOD or 1.0
    return JudgedSchedule(schedule, round(took.seconds / step) * step, sum(schedule.moved(trace)), draft)


def _all(
    trace: MemoryTrace, machine: MemoryMachine, rounds: int, trials: int, others: Iterable[Strategy]
) -> Iterator[JudgedSchedule]:
    """Yield several starts, then rounds of prices on the better ones, then exchanges on the best; quick ones first."""
    if trace.peak <= machine.device_bytes:
        yield judge(trace, machine, SwapSchedule())
        return
    found: list[JudgedSchedule] = []
    pricings = [_Pricing(trace, machine, found, *way) for way in product((True, False), (False, True))]
    for pricing in pricings:
        yield from pricing.round()
    for other in others:
        with suppress(MemoryPlanError):  # ours may still succeed
            schedule = other(trace, machine)
            check(trace, schedule, machine)
            yield judge(trace, machine, schedule)
    yield replace(min(found, key=lambda each: each.order), is_last_start=True)
    pricings.sort(key=lambda each: each.best)
    for _ in range(rounds):
        for pricing in pricings[: len(pricings) // 2]:
            yield from pricing.round()
    if not trials:
        return
    drafts = [each.draft for each in sorted(found, key=lambda each: each.order) if each.draft is not None]
    spared = next(each for each in drafts if each.is_spared)
    for draft in (spared, *drafts[:STARTS]):
        draft = draft.fork()
        for improve, lead in product((trade, relieve) if draft.is_spared else (relieve,), LEADS):
            for schedule in improve(draft, lead, trials):
                yield judge(trace, machine, schedule)


class _Pricing:
    """One way to choose, and the current prices of moments. `more`: seconds to fetch earlier, by tensor and operation.
    `found`: collects the schedules of all rounds."""

    def __init__(
        self, trace: MemoryTrace, machine: MemoryMachine, found: list[JudgedSchedule], early: bool, flash_first: bool
    ):
        self.input, self.early, self.flash_first = SimulationInput(trace, machine), early, flash_first
        self.out, self.back = np.zeros(len(trace.operations)), np.zeros(len(trace.operations))
        self.more: defaultdict[tuple[int, int], float] = defaultdict(float)
        self.found = found
        self.best = float("inf")

    def round(self) -> Iterator[JudgedSchedule]:
        """Yield schedules at the current prices; then update the prices from the waits of the best of them."""
        trace, machine, begin = self.input.trace, self.input.machine, len(self.found)
        draft = Draft(trace, machine, self.early)
        pick(draft, self.out, self.back, self.flash_first)
        draft.cover()
        for spare in (False, True):
            if spare:
                draft.spare()
            kept = draft.fork()
            for lead in LEADS:
                self.found.append(judge(trace, machine, draft.schedule(lead, self.more), kept))
                yield self.found[-1]
        least = min(self.found[begin:], key=lambda each: each.order)
        self.best = min(self.best, least.seconds)
        self._learn(least.schedule)

    def _learn(self, schedule: SwapSchedule) -> None:
        took = run(self.input, schedule, timeline=True)
        assert took.timeline is not None
        trace, starts, total = self.input.trace, took.timeline.starts, sum(took.stalls)
        count = len(trace.operations)
        if not total:
            return
        out, back = np.zeros(count), np.zeros(count)
        for transfer in took.timeline.transfers:
            each = schedule.absences[transfer.absence]
            stall = took.stalls[each.next % count]
            is_late = transfer.end >= starts[each.next % count] - GOOD * trace.seconds
            if transfer.link >= FROM_HOST and stall > 0 and is_late:
                self.more[each.tensor, each.leave] += stall
                back[(each.next - 1) % count] += stall / total
        transfers = (each for each in took.timeline.transfers if each.link < FROM_HOST)
        copies = sorted((each.start, each.end, each.absence) for each in transfers)
        for start, stall in zip(starts, took.stalls, strict=True):
            for begun, ended, number in copies if stall > 0 else ():
                copy = schedule.absences[number].copy
                if begun < start and ended > start - stall and copy is not None:
                    out[(copy + 1) % count] += (min(ended, start) - max(begun, start - stall)) / total
        self.out += _spread(out)
        self.back += _spread(back)


def _spread(prices: Numbers) -> Numbers:
    width = max(1, len(prices) // WIDTH)
    window = np.ones(2 * width + 1)
    wrapped = np.concatenate([prices[-width:], prices, prices[:width]])
    return np.convolve(wrapped, window, mode="valid")[: len(prices)]


def pick(draft: Draft, out_price: Numbers, in_price: Numbers, flash_first: bool) -> None:
    """Choose idle times until no memory is over capacity, or the links cannot carry more in time.

    A candidate's score is the time over capacity in which it would be away, divided by its price. `out_price` and
    `in_price`: by operation, how much more than usual a byte costs that is copied, or fetched, at that time.
    `flash_first`: use flash wherever it is as good as the host, else only if the host is full.
    """
    booked = BookedDraft(draft)
    gone = np.array([each.last for each in draft.idle], dtype=np.int64)
    until = np.array([each.next for each in draft.idle], dtype=np.int64)
    begins = np.array([draft.copied_after(each) for each in draft.idle], dtype=np.int64)
    price = 1 + out_price[(begins + 1) % draft.count] + in_price[(until - 1) % draft.count]
    open_ = np.ones(len(draft.idle), dtype=bool)
    while open_.any():
        over = np.where(booked.away.used > booked.away.limit, booked.seconds, 0.0)
        time = np.concatenate([[0.0], np.cumsum(np.concatenate([over, over]))])
        scores = np.where(open_, (time[until] - time[np.minimum(gone + 1, until)]) / price, 0)
        best = int(scores.argmax())
        if scores[best] <= 0:
            return
        found = _best_window(booked, best, time, flash_first)
        if found is None:
            open_[best] = False
            continue
        tier, gone[best], until[best] = found
        if (time[until[best]] - time[gone[best] + 1]) / price[best] >= CLOSE * scores[best]:
            open_[best] = False
            booked.book(draft.idle[best], tier, int(gone[best]), int(until[best]))


def _best_window(booked: BookedDraft, number: int, time: Numbers, flash_first: bool) -> tuple[Tier, int, int] | None:
    """The tier, and the window that the links allow, with the longest time over capacity."""
    idle = booked.draft.idle[number]
    best: tuple[float, tuple[Tier, int, int] | None] = (0.0, None)
    tiers = [tier for tier in (Tier.FLASH, Tier.HOST) if booked.draft.fits(idle, tier)]
    for tier in tiers if flash_first else tiers[-1:]:
        window = booked.window(idle, tier)
        if window is None:
            continue
        gone, back = window
        if time[back] - time[gone + 1] > best[0] * 1.0001:
            best = time[back] - time[gone + 1], (tier, gone, back)
    return best[1]


@dataclass(frozen=True)
class Saving:
    """`device_bytes` are enough with `schedule`; `peak` without one."""

    peak: int
    device_bytes: int
    schedule: SwapSchedule

    @property
    def part(self) -> float:
        """The part of the peak that is saved."""
        return 1 - self.device_bytes / self.peak if self.peak else 0.0


def largest_saving(trace: MemoryTrace, machine: MemoryMachine) -> Saving:
    """Return the least device memory found with which an iteration takes its ideal time.

    Less may be possible. The machine's own device memory is ignored.
    """
    best = Saving(trace.peak, trace.peak, SwapSchedule())
    low = least_bytes(trace)[0]
    for _ in range(STEPS):
        if low >= best.device_bytes:
            break
        middle = (low + best.device_bytes) // 2
        tried = machine.with_device(middle)
        try:
            schedule = search(trace, tried, rounds=1, trials=6, others=())
            is_ideal = simulate(trace, schedule, tried).seconds <= trace.seconds * (1 + 2 * GOOD)
        except MemoryPlanError:
            is_ideal = False
        if is_ideal:
            best = Saving(trace.peak, middle, schedule)
        else:
            low = middle + 1
    return best
