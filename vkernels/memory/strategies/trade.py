"""Making a schedule better step by step: where an operation waits for flash, that tensor goes to the host, and another
that has time goes to flash instead. The simulator judges every step."""

from __future__ import annotations

from collections.abc import Iterator

from ..links import Tier
from ..schedule import Absence, Idle, SwapSchedule
from ..simulate import SimulatedRun, run
from ..simulate_engine import SimulationInput
from .draft import Draft

PARTNERS = 6
"""Tensors on the host that are tried in place of one that came late from flash."""
FAILURES = 6
"""Late tensors for which no partner was any better, after which it ends."""


def trade(draft: Draft, lead: float, trials: int) -> Iterator[SwapSchedule]:
    """Schedules, each better than the one before; at most `trials` are tried. The draft is left at the best."""
    prepared = SimulationInput(draft.trace, draft.machine)
    best = draft.schedule(lead)
    now = run(prepared, best, timeline=True)
    given_up: set[Idle] = set()
    while trials > 0 and len(given_up) < FAILURES:
        late = next((each for each in _late(draft, best, now) if each not in given_up), None)
        if late is None:
            return
        given_up.add(late)
        for partners in _partners(draft, late):
            trials -= 1
            _exchange(draft, late, partners)
            tried = draft.schedule(lead)
            result = run(prepared, tried, timeline=True)
            if result.seconds < now.seconds * (1 - 1e-9):
                best, now = tried, result
                given_up.clear()
                yield best
                break
            _exchange_back(draft, late, partners)
            if trials <= 0:
                return


def _late(draft: Draft, schedule: SwapSchedule, now: SimulatedRun) -> list[Idle]:
    """Those that are coming from flash, or have room kept for them, while operations wait: the longest waits first."""
    assert now.timeline is not None
    starts = now.timeline.starts
    fetches = [(each.end, each.absence) for each in now.timeline.transfers if each.link == 3]
    found: dict[int, float] = {}
    for ended, number in fetches:
        back, need = schedule.absences[number].back % draft.count, schedule.absences[number].next % draft.count
        for at in range(back, need + 1):
            if now.stalls[at] > 0 and ended > starts[at] - now.stalls[at]:
                found[number] = found.get(number, 0.0) + now.stalls[at]
    order = sorted(found, key=lambda number: (-found[number], number))
    idles = [_idle(draft, schedule.absences[number]) for number in order]
    return [each for each in idles if each is not None]


def _partners(draft: Draft, late: Idle) -> list[tuple[Idle, ...]]:
    """Tensors on the host in whose room it fits, spread over the times at which they are needed; and none, if the host
    has room left."""
    alike = [
        each for each, tier in draft.chosen.items() if tier is Tier.HOST and late.size <= each.size <= 2 * late.size
    ]
    alike.sort(key=lambda each: (each.next, each.tensor, each.last))
    step = max(1, len(alike) // PARTNERS)
    return [*((each,) for each in alike[::step][:PARTNERS]), ()]


def _exchange(draft: Draft, late: Idle, partners: tuple[Idle, ...]) -> None:
    """Where the host has no room for `late` after all, it stays on flash, and nothing is won."""
    for each in (late, *partners):
        draft.release(each)
    draft.choose(late, Tier.HOST if draft.fits(late, Tier.HOST) else Tier.FLASH)
    for each in partners:
        draft.choose(each, Tier.FLASH)


def _exchange_back(draft: Draft, late: Idle, partners: tuple[Idle, ...]) -> None:
    for each in (late, *partners):
        draft.release(each)
    draft.choose(late, Tier.FLASH)
    for each in partners:
        draft.choose(each, Tier.HOST)


def _idle(draft: Draft, absence: Absence) -> Idle | None:
    return next((each for each in draft.chosen if each.tensor == absence.tensor and each.last == absence.leave), None)
