"""Making a schedule better step by step: where an operation waits for flash, that tensor goes to the host, and another
that has time goes to flash instead. The simulator judges every step."""

from __future__ import annotations

from collections.abc import Iterator

from ..links import Tier
from ..schedule import Absence, Idle, Schedule
from ..simulate import Run, simulate
from .draft import Draft

PARTNERS = 6
"""Tensors on the host that are tried in place of one that came late from flash."""
FAILURES = 6
"""Late tensors for which no partner was any better, after which it ends."""


def trade(draft: Draft, lead: float, trials: int) -> Iterator[Schedule]:
    """Schedules, each better than the one before; at most `trials` are tried. The draft is left at the best."""
    best = draft.schedule(lead)
    run = simulate(draft.trace, best, draft.machine, timeline=True)
    given_up: set[Idle] = set()
    while trials > 0 and len(given_up) < FAILURES:
        late = next((each for each in _late(draft, best, run) if each not in given_up), None)
        if late is None:
            return
        given_up.add(late)
        for partners in _partners(draft, best, run, late):
            trials -= 1
            _exchange(draft, late, partners)
            tried = draft.schedule(lead)
            result = simulate(draft.trace, tried, draft.machine, timeline=True)
            if result.seconds < run.seconds * (1 - 1e-9):
                best, run = tried, result
                given_up.clear()
                yield best
                break
            _exchange_back(draft, late, partners)
            if trials <= 0:
                return


def _late(draft: Draft, schedule: Schedule, run: Run) -> list[Idle]:
    """Those that are coming from flash, or have room kept for them, while operations wait: the longest waits first."""
    assert run.timeline is not None
    starts = run.timeline.starts
    fetches = [(each.end, each.absence) for each in run.timeline.transfers if each.link == 3]
    found: dict[int, float] = {}
    for ended, number in fetches:
        back, need = schedule.absences[number].back % draft.count, schedule.absences[number].next % draft.count
        for at in range(back, need + 1):
            if run.stalls[at] > 0 and ended > starts[at] - run.stalls[at]:
                found[number] = found.get(number, 0.0) + run.stalls[at]
    order = sorted(found, key=lambda number: (-found[number], number))
    idles = [_idle(draft, schedule.absences[number]) for number in order]
    return [each for each in idles if each is not None]


def _partners(draft: Draft, schedule: Schedule, run: Run, late: Idle) -> list[tuple[Idle, ...]]:
    """Tensors on the host whose room would do, each alone or several together: those needed at other times first."""
    on_host = [each for each, tier in draft.chosen.items() if tier is Tier.HOST]
    large = sorted((each for each in on_host if each.size >= late.size), key=lambda each: (each.size, each.next))
    alike = [each for each in large if each.size <= 2 * late.size]
    early = sorted(alike, key=lambda each: (each.next, each.tensor))
    step = max(1, len(early) // PARTNERS)
    return [(each,) for each in early[::step][:PARTNERS]] + [()]


def _exchange(draft: Draft, late: Idle, partners: tuple[Idle, ...]) -> None:
    for each in (late, *partners):
        draft.release(each)
    draft.choose(late, draft.tier(late))
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
