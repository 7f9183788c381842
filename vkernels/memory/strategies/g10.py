"""G10 (Zhang et al., MICRO 2023), re-implemented from the paper.

Repeatedly choose the idle time that lowers memory over capacity most, in bytes times seconds, per second on the links.
Its transfers are booked: copied out as early and fetched as late as the links allow. Fetches then move forward where
there is room.
"""

from __future__ import annotations

import heapq

import numpy as np

from ..links import MemoryMachine, Tier
from ..schedule import Idle, SwapSchedule
from ..trace import MemoryTrace
from .draft import BookedDraft, Draft

EAGER = 1e9
"""Fetches move forward as far as there is room."""


def g10(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """G10's schedule. Raises `MemoryPlanError` if no schedule is possible."""
    draft = Draft(trace, machine)
    booked = BookedDraft(draft)
    queue: list[tuple[float, int]] = []
    for number, idle in enumerate(draft.idle):
        score, _ = _score(booked, idle)
        if score > 0:
            heapq.heappush(queue, (-score, number))
    while queue and booked.away.excess().any():
        old, number = heapq.heappop(queue)
        idle = draft.idle[number]
        score, window = _score(booked, idle)
        if score <= 0 or window is None:
            continue
        if queue and score < -queue[0][0] and score < -old:  # scores only fall, so an old one is an upper bound
            heapq.heappush(queue, (-score, number))
            continue
        booked.book(idle, *window)
    draft.cover()
    return draft.schedule(lead=EAGER)


def _score(booked: BookedDraft, idle: Idle) -> tuple[float, tuple[Tier, int, int] | None]:
    """Return the byte seconds over capacity that an absence saves, per byte, and the arguments to book it.

    Flash is preferred where it is as good: the host fills up soon.
    """
    best: tuple[float, tuple[Tier, int, int] | None] = (0.0, None)
    for tier in (Tier.FLASH, Tier.HOST):
        window = booked.window(idle, tier) if booked.draft.fits(idle, tier) else None
        if window is None:
            continue
        gone, back = window
        saved = 0.0
        for part in booked.away.parts(gone + 1, back):
            over = np.clip(booked.away.used[part] - booked.away.limit, 0, idle.size)
            saved += float((over * booked.seconds[part]).sum())
        if saved / idle.size > best[0] * 1.0001:
            best = saved / idle.size, (tier, gone, back)
    return best
