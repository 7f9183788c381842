"""AutoSwap (Zhang et al. 2019), re-implemented from the paper: choose idle times by a score while memory is over
capacity.

Four scores. DOA, duration of absence: idle seconds minus the seconds to copy the tensor out and back. AOA, area of
absence: DOA times the tensor's size. WDOA, weighted: each second is weighted by the bytes live then. SWDOA, submodular:
these bytes are counted again after each choice. The paper learns weights of the four for each program, as `learned`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import numpy as np

from vkernels.ir.errors import MemoryPlanError

from ..links import MemoryMachine, Tier
from ..schedule import SwapSchedule
from ..simulate import run
from ..simulate_engine import SimulationInput
from ..trace import MemoryTrace
from .draft import Draft, Numbers

DRAWS, SEED = 12, 20261127
"""Random weights to try, and the seed of the draws."""


def doa(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """AutoSwap by duration of absence. All of these raise `MemoryPlanError` if no schedule is possible."""
    return _in_order(Draft(trace, machine), lambda away: away.absent)


def aoa(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """AutoSwap by area of absence."""
    return _in_order(Draft(trace, machine), lambda away: away.absent * [each.size for each in away.draft.idle])


def wdoa(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """AutoSwap by weighted duration of absence."""
    return _in_order(Draft(trace, machine), _Away.weighted)


def swdoa(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """AutoSwap by submodular weighted duration of absence."""
    return _by_weights(Draft(trace, machine), (0.0, 0.0, 0.0, 1.0))


def learned(trace: MemoryTrace, machine: MemoryMachine) -> SwapSchedule:
    """AutoSwap by the weighted sum of its scores that is best in the simulator: each score alone, then random weights.

    The paper chooses the weights to try by Bayesian optimisation.
    """
    prepared, draw = SimulationInput(trace, machine), np.random.default_rng(SEED)
    weights = [*np.eye(4), *draw.dirichlet(np.ones(4), DRAWS)]
    tried: list[SwapSchedule] = []
    for each in weights:
        with suppress(MemoryPlanError):  # host and flash are full; other weights may do
            tried.append(_by_weights(Draft(trace, machine), each))
    if not tried:
        return swdoa(trace, machine)  # raises the error
    return min(tried, key=lambda schedule: run(prepared, schedule).seconds)


def _by_weights(draft: Draft, weights: Sequence[float]) -> SwapSchedule:
    """Choose one by one by a weighted sum of DOA, AOA, WDOA and SWDOA, each as a part of its largest value."""
    away = _Away(draft)
    sizes = np.array([each.size for each in draft.idle], dtype=float)
    fixed = [_parts(each) for each in (away.absent, away.absent * sizes, away.weighted())]
    base: Numbers = sum((by * each for by, each in zip(weights, fixed, strict=False)), np.zeros_like(sizes))
    open_ = away.part > 0
    while draft.device.excess().any():
        over = np.concatenate([[0], np.cumsum(np.tile(draft.device.excess() > 0, 2))])
        helps = over[away.until] > over[away.since]
        scores = np.where(open_ & helps, base + weights[3] * _parts(away.weighted()), 0)
        if not scores.any():
            break
        best = int(scores.argmax())
        open_[best] = False
        draft.choose_if_possible(draft.idle[best])
    draft.cover()
    return draft.schedule()


def _parts(scores: Numbers) -> Numbers:
    """Scores as parts of the largest; none is below 0."""
    found: Numbers = np.maximum(scores, 0) / max(float(scores.max(initial=0)), 1e-300)
    return found


def _in_order(draft: Draft, score: Callable[[_Away], Numbers]) -> SwapSchedule:
    """Choose by descending score, if some of the memory that is freed is still over capacity."""
    scores = score(_Away(draft))
    for number in np.argsort(-scores, kind="stable"):
        idle = draft.idle[number]
        if scores[number] > 0 and not draft.device.fits(idle.last + 1, idle.next, 0):
            draft.choose_if_possible(idle)
    draft.cover()
    return draft.schedule()


class _Away:
    """Arrays of all idle times: operations from `since` until before `until`, seconds away in them (`absent`), and
    these as a `part` of the idle time."""

    def __init__(self, draft: Draft):
        self.draft = draft
        self.since = np.array([each.last + 1 for each in draft.idle], dtype=np.int64)
        self.until = np.array([each.next for each in draft.idle], dtype=np.int64)
        whole = np.array([draft.seconds(each) for each in draft.idle])
        out = np.array([draft.machine.out_seconds(Tier.HOST, each.size) for each in draft.idle])
        self.absent: Numbers = whole - out - [draft.machine.in_seconds(Tier.HOST, each.size) for each in draft.idle]
        self.part = np.divide(self.absent, whole, out=np.zeros_like(whole), where=self.absent > 0)

    def weighted(self) -> Numbers:
        """Bytes times seconds of all that is on the device while each tensor is away."""
        seconds = np.diff(self.draft.starts)
        load = np.concatenate([[0.0], np.cumsum(np.tile(seconds * self.draft.device.used, 2))])
        found: Numbers = (load[self.until] - load[self.since]) * self.part
        return found
