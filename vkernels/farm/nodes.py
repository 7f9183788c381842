"""How many nodes stay on: rules that release and wake nodes, replayed on recorded demand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError

from .traces import NodeCount

Whole = NDArray[np.int64]
SLOT_SECONDS = 600
FIRST_SLOTS = 6
"""Slots at the start in which a replay keeps the buffer on, whatever the rule: the published policy's first hour."""
LEAST_FALL = 0.1
"""Nodes by which demand must be below that of slots before to count as falling, as in the published policy."""


@dataclass(frozen=True)
class Demand:
    """Most nodes at work, and all nodes, in each slot. `slot`: numbers of slots since 1970; gaps are left out."""

    slot: Whole
    active: Whole
    total: Whole


def demand_of(counts: Sequence[NodeCount]) -> Demand:
    """Gather counts in slots of ten minutes."""
    slots: dict[int, tuple[int, int]] = {}
    for count in counts:
        number = int(count.time // SLOT_SECONDS)
        active, total = slots.get(number, (0, 0))
        slots[number] = max(active, count.active), max(total, count.total)
    found = np.array([(number, *slots[number]) for number in sorted(slots)], np.int64).reshape(-1, 3)
    return Demand(found[:, 0], found[:, 1], found[:, 2])


class Rule(Protocol):
    """Chooses how many nodes are on. `buffer`: nodes beyond those at work."""

    @property
    def buffer(self) -> int: ...

    def starts(self, slot: int) -> None:
        """Begin a replay at this index of the demand."""

    def on(self, now: int, before: int) -> int:
        """Nodes on in the slot with index `now`, after `before` were. May be too few or too many: both are mended."""


@dataclass
class Ces:
    """Helios' Cluster Energy Saving as its artifact has it for Philly.

    `forecast`: expected nodes at work in this slot and the 59 after it, given the slot's index.
    """

    demand: Demand
    buffer: int
    forecast: Callable[[int], NDArray[np.float64]]
    keep: int = 10
    _stable: int = 0

    def starts(self, slot: int) -> None:
        self._stable = slot

    def on(self, now: int, before: int) -> int:
        active, on = self.demand.active, before
        if on < active[now]:
            on, self._stable = int(active[now]) + self.buffer, now + self.keep
        on = min(on, int(self.demand.total[now]))
        expected = self.forecast(now)
        soon, later = expected[: len(expected) // 2].mean(), expected.mean()
        is_falling = active[now - 2 : now].mean() - active[now] >= LEAST_FALL and active[now] >= soon
        if not is_falling or now < self._stable:
            return on
        self._stable = now
        return on if soon < later else min(on, int(active[now]) + self.buffer)


@dataclass
class RecentPeak:
    """Release towards the peak of the last `window` slots and the buffer, a `part` of what is beyond in each slot.

    Nodes are released only while fewer are at work, by `fall` buffers, than in the mean of the `falling` slots before;
    0: always. Where nodes are short, `wakes` buffers are woken at once.
    """

    demand: Demand
    buffer: int
    window: int = 18
    wakes: int = 2
    falling: int = 3
    fall: float = 0.04
    part: float = 1 / 3

    def starts(self, slot: int) -> None:
        pass

    def on(self, now: int, before: int) -> int:
        active = self.demand.active
        if before < active[now]:
            return int(active[now]) + self.wakes * self.buffer
        least = max(LEAST_FALL, self.fall * self.buffer)
        if self.falling and active[max(0, now - self.falling) : now].mean() - active[now] < least:
            return before
        kept = int(active[max(0, now + 1 - self.window) : now + 1].max()) + self.buffer
        return before - math.ceil(max(0, before - kept) * self.part)


def reactive(demand: Demand, buffer: int) -> RecentPeak:
    """A rule that keeps the peak of the last six hours and the buffer, and wakes a buffer beyond what is short."""
    return RecentPeak(demand, buffer, window=36, wakes=1, falling=0, part=1.0)


@dataclass(frozen=True)
class Replay:
    """`on`: nodes in each slot. `utilisation`: mean part of them at work. `short`: slots that began with too few.

    `wakes`: slots in which nodes were woken.
    """

    on: Whole
    utilisation: float
    short: int
    wakes: int


def replay(demand: Demand, rule: Rule, start: int, slots: int) -> Replay:
    """Replay a rule on `slots` slots from the index `start` on. Raises `OptionError` where the demand lacks them."""
    if start < 2 or slots < 1 or start + slots > len(demand.slot):
        raise OptionError(f"expected slots within 2 to {len(demand.slot)}, got {start} to {start + slots}")
    active, total = demand.active, demand.total
    rule.starts(start)
    on = np.empty(slots, np.int64)
    short = wakes = 0
    for step in range(slots):
        now = start + step
        if step < FIRST_SLOTS:
            on[step] = min(active[now] + rule.buffer, total[now])
            continue
        before = int(on[step - 1])
        on[step] = min(max(rule.on(now, before), int(active[now])), int(total[now]))
        short += int(before < active[now])
        wakes += int(on[step] > before)
    used = active[start : start + slots]
    return Replay(on, float(np.mean(used / np.maximum(on, 1))), short, wakes)
