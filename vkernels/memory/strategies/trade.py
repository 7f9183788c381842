"""Improve a schedule step by step: a tensor that comes late from flash moves to the host, and another to flash.

Every step is simulated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from ..links import Tier
from ..schedule import Idle, SwapSchedule
from ..simulate import SimulatedRun, run
from ..simulate_engine import FROM_FLASH, SimulationInput
from .draft import Draft

PARTNERS = 6
"""Tensors on the host to try in exchange for one that came late from flash."""
FAILURES = 6
"""Late tensors without a better partner, after which the search ends."""


def trade(draft: Draft, lead: float, trials: int) -> Iterator[SwapSchedule]:
    """Yield ever better schedules; try at most `trials`. The draft is left at the best."""
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
            _exchange(draft, late, partners, back=False)
            tried = draft.schedule(lead)
            result = run(prepared, tried, timeline=True)
            if result.seconds < now.seconds * (1 - 1e-9):
                best, now = tried, result
                given_up.clear()
                yield best
                break
            _exchange(draft, late, partners, back=True)
            if trials <= 0:
                return


def _late(draft: Draft, schedule: SwapSchedule, now: SimulatedRun) -> list[Idle]:
    """Tensors that come from flash, or have memory reserved for it, while operations wait: the longest waits first."""
    assert now.timeline is not None
    starts = now.timeline.starts
    waits: defaultdict[int, float] = defaultdict(float)
    for transfer in now.timeline.transfers:
        each = schedule.absences[transfer.absence]
        for at in range(each.back % draft.count, each.next % draft.count + 1) if transfer.link == FROM_FLASH else ():
            if now.stalls[at] > 0 and transfer.end > starts[at] - now.stalls[at]:
                waits[transfer.absence] += now.stalls[at]
    chosen = {(each.tensor, each.last): each for each in draft.chosen}
    order = (schedule.absences[number] for number in sorted(waits, key=lambda number: (-waits[number], number)))
    return [chosen[each.tensor, each.leave] for each in order if (each.tensor, each.leave) in chosen]


def _partners(draft: Draft, late: Idle) -> list[tuple[Idle, ...]]:
    """Tensors on the host that leave enough memory, spread over the times of their next use; and none, if the host has
    free memory."""
    alike = [
        each for each, tier in draft.chosen.items() if tier is Tier.HOST and late.size <= each.size <= 2 * late.size
    ]
    alike.sort(key=lambda each: (each.next, each.tensor, each.last))
    step = max(1, len(alike) // PARTNERS)
    return [*((each,) for each in alike[::step][:PARTNERS]), ()]


def _exchange(draft: Draft, late: Idle, partners: tuple[Idle, ...], back: bool) -> None:
    """Move `late` to the host, if it has room, and `partners` to flash; or `back`."""
    for each in (late, *partners):
        draft.release(each)
    draft.choose(late, Tier.HOST if not back and draft.fits(late, Tier.HOST) else Tier.FLASH)
    for each in partners:
        draft.choose(each, Tier.HOST if back else Tier.FLASH)
