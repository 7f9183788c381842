"""Choose idle times repeatedly by what they save; all candidates are scored at once, for speed."""

from __future__ import annotations

import numpy as np

from ..links import Tier
from ..schedule_rooms import Numbers
from .draft import BookedDraft, Draft

CLOSE = 0.97
"""A candidate is chosen if its score turns out to be this part of the estimate, without comparing others again."""


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
