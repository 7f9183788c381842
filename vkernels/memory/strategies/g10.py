"""G10 (Zhang et al., MICRO 2023): of all idle times, again and again the one whose absence lowers memory over capacity
most, in bytes times seconds, for the time that the links are taken; its transfers are booked, copying out as early and
fetching as late as the links allow, and fetches move forward where there is room. Re-implemented from the paper."""

from __future__ import annotations

import heapq

import numpy as np

from ..links import MemoryMachine, Tier
from ..schedule import Idle, SwapSchedule
from ..schedule_rooms import FreeBytes, LinkTime
from ..trace import MemoryTrace
from .draft import Draft

EAGER = 1e9
"""Fetches move forward as far as there is room."""


def g10(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """The schedule that G10 makes. Raises `MemoryPlanError` where none could do."""
    draft = Draft(trace, machine)
    Pressure(draft).relieve()
    draft.cover()
    return draft.schedule(lead=EAGER)


class Pressure:
    """Memory over capacity by operation, as long as not enough is booked to be away."""

    def __init__(self, draft: Draft):
        self.draft = draft
        seconds = [op.seconds for op in draft.trace.operations]
        self.seconds = np.array(seconds)
        self.away = FreeBytes(draft.trace.live(), draft.machine.device_bytes)
        self.out = {tier: LinkTime(seconds) for tier in Tier}
        self.back = {tier: LinkTime(seconds) for tier in Tier}

    def relieve(self) -> None:
        """Choose the best again and again. Benefits only ever fall, so an old one bounds what is left of it."""
        queue: list[tuple[float, int]] = []
        for number, idle in enumerate(self.draft.idle):
            score, _ = self.score(idle)
            if score > 0:
                heapq.heappush(queue, (-score, number))
        while queue and self.away.excess().any():
            old, number = heapq.heappop(queue)
            idle = self.draft.idle[number]
            score, booked = self.score(idle)
            if score <= 0 or booked is None:
                continue
            if queue and score < -queue[0][0] and score < -old:
                heapq.heappush(queue, (-score, number))
                continue
            self.book(idle, *booked)

    def score(self, idle: Idle) -> tuple[float, tuple[Tier, int, int] | None]:
        """Byte seconds over capacity that an absence saves, for each second of the links; where to, and from when until
        when it would really be away. Flash where it serves as well: the host is soon full."""
        best: tuple[float, tuple[Tier, int, int] | None] = (0.0, None)
        for tier in (Tier.FLASH, Tier.HOST):
            if not self.draft.fits(idle, tier):
                continue
            first = self.draft.copied_after(idle) + 1
            gone = self.out[tier].forward(first, idle.next, self.draft.machine.out_seconds(tier, idle.size))
            back = self.back[tier].backward(idle.last + 1, idle.next, self.draft.machine.in_seconds(tier, idle.size))
            if gone is None or back is None or back <= max(gone, idle.last) + 1:
                continue
            gone = max(gone, idle.last)
            saved = 0.0
            for part in self.away.parts(gone + 1, back):
                over = np.clip(self.away.used[part] - self.away.limit, 0, idle.size)
                saved += float((over * self.seconds[part]).sum())
            score = saved / idle.size
            if score > best[0] * 1.0001:
                best = score, (tier, gone, back)
        return best

    def book(self, idle: Idle, tier: Tier, gone: int, back: int) -> None:
        self.out[tier].take(
            range(self.draft.copied_after(idle) + 1, gone + 1), self.draft.machine.out_seconds(tier, idle.size)
        )
        self.back[tier].take(range(idle.next - 1, back - 1, -1), self.draft.machine.in_seconds(tier, idle.size))
        self.away.add(gone + 1, back, -idle.size)
        self.draft.choose(idle, tier)
