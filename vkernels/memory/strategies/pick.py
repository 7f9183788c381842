"""Choosing idle times again and again by what they save, quickly: all candidates are scored at once."""

from __future__ import annotations

import numpy as np

from ..links import Tier
from ..schedule_rooms import FreeBytes, LinkTime, Numbers
from .draft import Draft

CLOSE = 0.97
"""Of the score that it was thought to have: from there on a candidate is taken without looking at others again."""


class Picker:
    """Takes idle times into a draft until nothing is over capacity, as far as links can carry it in time.

    A candidate's score: the seconds over capacity in which it would be away, over its price. `out_price` and
    `in_price`: by operation, how much more than usual a byte costs that is copied, or fetched, at that time.
    `flash_first`: flash wherever it serves as well as the host, else only when the host is full.
    """

    def __init__(self, draft: Draft, out_price: Numbers, in_price: Numbers, flash_first: bool):
        self.draft, self.flash_first = draft, flash_first
        machine, seconds = draft.machine, [op.seconds for op in draft.trace.operations]
        self.seconds = np.array(seconds)
        self.away = FreeBytes(draft.trace.live(), machine.device_bytes)
        self.out = {tier: LinkTime(seconds) for tier in Tier}
        self.back = {tier: LinkTime(seconds) for tier in Tier}
        self.begins = [draft.copied_after(each) for each in draft.idle]
        self.gone = np.array([each.last for each in draft.idle], dtype=np.int64)
        self.until = np.array([each.next for each in draft.idle], dtype=np.int64)
        begins = np.array(self.begins, dtype=np.int64)
        self.price = 1 + out_price[(begins + 1) % draft.count] + in_price[(self.until - 1) % draft.count]

    def pick(self) -> None:
        """Take the best until none is left that helps."""
        open_ = np.ones(len(self.draft.idle), dtype=bool)
        while open_.any():
            time = self._time_over()
            scores = np.where(open_, (time[self.until] - time[np.minimum(self.gone + 1, self.until)]) / self.price, 0)
            best = int(scores.argmax())
            if scores[best] <= 0:
                return
            found = self._fit(best, time)
            if found is None:
                open_[best] = False
                continue
            tier, gone, back = found
            self.gone[best], self.until[best] = gone, back
            if (time[back] - time[gone + 1]) / self.price[best] < CLOSE * scores[best]:
                continue
            open_[best] = False
            self._take(best, tier)

    def _time_over(self) -> Numbers:
        """Seconds over capacity before each operation of two iterations."""
        over = np.where(self.away.used > self.away.limit, self.seconds, 0.0)
        return np.concatenate([[0.0], np.cumsum(np.concatenate([over, over]))])

    def _fit(self, number: int, time: Numbers) -> tuple[Tier, int, int] | None:
        """Where to, and from which operation until which it would be away, by what the links have left."""
        idle, machine = self.draft.idle[number], self.draft.machine
        best: tuple[float, tuple[Tier, int, int] | None] = (0.0, None)
        tiers = [tier for tier in (Tier.FLASH, Tier.HOST) if self.draft.fits(idle, tier)]
        for tier in tiers if self.flash_first else tiers[-1:]:
            gone = self.out[tier].forward(self.begins[number] + 1, idle.next, machine.out_seconds(tier, idle.size))
            back = self.back[tier].backward(idle.last + 1, idle.next, machine.in_seconds(tier, idle.size))
            if gone is None or back is None:
                continue
            gone = max(gone, idle.last)
            if back > gone + 1 and time[back] - time[gone + 1] > best[0] * 1.0001:
                best = time[back] - time[gone + 1], (tier, gone, back)
        return best[1]

    def _take(self, number: int, tier: Tier) -> None:
        idle, machine = self.draft.idle[number], self.draft.machine
        gone, back = int(self.gone[number]), int(self.until[number])
        self.out[tier].take(range(self.begins[number] + 1, gone + 1), machine.out_seconds(tier, idle.size))
        self.back[tier].take(range(idle.next - 1, back - 1, -1), machine.in_seconds(tier, idle.size))
        self.away.add(gone + 1, back, -idle.size)
        self.draft.choose(idle, tier)
