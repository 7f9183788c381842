"""AutoSwap (Zhang et al. 2019): idle times in the order of a score, as long as the memory they leave is over capacity.
Re-implemented from the paper, its four scores:

DOA, the duration of absence: idle seconds, less what it takes to carry the tensor out and back. AOA, its area: that
times the tensor's size. WDOA, weighted: each second of it counts by the bytes that live then. SWDOA, submodular: those
bytes are counted anew after each choice.
"""

from __future__ import annotations

import numpy as np

from ..links import MemoryMachine, Tier
from ..schedule import Idle, SwapSchedule
from ..schedule_rooms import Numbers
from ..trace import MemoryTrace
from .draft import Draft


def doa(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """AutoSwap by duration of absence. As all here, raises `MemoryPlanError` where no schedule could do."""
    draft = Draft(trace, machine)
    return _in_order(draft, [_absent(draft, each) for each in draft.idle])


def aoa(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """AutoSwap by area of absence."""
    draft = Draft(trace, machine)
    return _in_order(draft, [_absent(draft, each) * each.size for each in draft.idle])


def wdoa(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """AutoSwap by weighted duration of absence."""
    draft = Draft(trace, machine)
    return _in_order(draft, _Away(draft).weighted().tolist())


def swdoa(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """AutoSwap by submodular weighted duration of absence."""
    draft = Draft(trace, machine)
    away = _Away(draft)
    open_ = away.part > 0
    while draft.device.excess().any():
        over = np.concatenate([[0], np.cumsum(np.tile(draft.device.excess() > 0, 2))])
        helps = over[away.until] > over[away.since]
        scores = np.where(open_ & helps, away.weighted(), 0)
        if not scores.any():
            break
        best = int(scores.argmax())
        open_[best] = False
        _choose(draft, draft.idle[best])
    return _finished(draft)


def _in_order(draft: Draft, scores: list[float]) -> SwapSchedule:
    """Those of the highest scores, each if some of the memory that it leaves is still over capacity."""
    for number in sorted(range(len(scores)), key=lambda number: -scores[number]):
        idle = draft.idle[number]
        if scores[number] > 0 and not draft.device.fits(idle.last + 1, idle.next, 0):
            _choose(draft, idle)
    return _finished(draft)


def _choose(draft: Draft, idle: Idle) -> None:
    tier = draft.tier(idle)
    if tier is not None:
        draft.choose(idle, tier)


def _finished(draft: Draft) -> SwapSchedule:
    draft.cover()
    return draft.schedule()


def _absent(draft: Draft, idle: Idle) -> float:
    tier, machine = Tier.HOST, draft.machine
    return draft.seconds(idle) - machine.out_seconds(tier, idle.size) - machine.in_seconds(tier, idle.size)


class _Away:
    """All idle times at once: the operations from `since` until before `until`, and the part in which they are away."""

    def __init__(self, draft: Draft):
        self.draft = draft
        self.since = np.array([each.last + 1 for each in draft.idle], dtype=np.int64)
        self.until = np.array([each.next for each in draft.idle], dtype=np.int64)
        whole = np.array([draft.seconds(each) for each in draft.idle])
        absent = np.array([_absent(draft, each) for each in draft.idle])
        self.part = np.divide(absent, whole, out=np.zeros_like(whole), where=absent > 0)

    def weighted(self) -> Numbers:
        """Bytes times seconds of all that is on the device while each is away."""
        seconds = np.diff(self.draft.starts)
        load = np.concatenate([[0.0], np.cumsum(np.tile(seconds * self.draft.device.used, 2))])
        found: Numbers = (load[self.until] - load[self.since]) * self.part
        return found
