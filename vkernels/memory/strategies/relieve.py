"""Improve a schedule step by step: where operations wait, tensors whose copies are ready leave as well, and others,
whose copies keep the link busy then, stay.

Every step is simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, product, zip_longest

from ..links import Tier
from ..schedule import Idle, SwapSchedule
from ..simulate import SimulatedRun, run
from ..simulate_engine import SimulationInput
from .draft import Draft

WIDTH = 8
"""Tensors to try for one step."""


def relieve(draft: Draft, lead: float, trials: int) -> Iterator[SwapSchedule]:
    """Yield ever better schedules; try at most `trials`. The draft is left at the best."""
    prepared = SimulationInput(draft.trace, draft.machine)
    now = run(prepared, draft.schedule(lead))
    given_up: set[Idle] = set()
    while trials > 0:
        candidates = [each for each in _ready(draft, now) if each not in given_up][:WIDTH]
        if not candidates:
            return
        for each, releases in product(candidates, (False, True)):
            trials -= 1
            given_up.add(each)
            changes = _exchange(draft, each, now, releases)
            tried = draft.schedule(lead) if changes else None
            result = run(prepared, tried) if tried is not None else None
            if tried is not None and result is not None and result.seconds < now.seconds * (1 - 1e-9):
                now = result
                yield tried
                break
            for idle, tier in reversed(changes):  # undo
                draft.release(idle) if idle in draft.chosen else draft.choose(idle, tier)
            if trials <= 0:
                return


def _ready(draft: Draft, now: SimulatedRun) -> list[Idle]:
    """Idle times that are not chosen, in which operations wait, by bytes times seconds of waiting. Every other one has
    its copy from the previous iteration."""
    waits = [*accumulate((*now.stalls, *now.stalls), initial=0.0)]
    open_ = (each for each in draft.idle if each not in draft.chosen)
    scores = {each: each.size * (waits[each.next] - waits[each.last + 1]) for each in open_}
    least = 0.01 * max(scores.values(), default=0.0)
    ready = [each for each, score in scores.items() if score > least]
    ready.sort(key=lambda each: (-scores[each], each.tensor, each.last))
    copied = [each for each in ready if draft.copied_after(each) < 0]
    others = [each for each in ready if draft.copied_after(each) >= 0]
    return [each for pair in zip_longest(copied, others) for each in pair if each is not None]


def _exchange(draft: Draft, idle: Idle, now: SimulatedRun, releases: bool) -> list[tuple[Idle, Tier]]:
    """Choose an idle time, and with `releases` release others that are not needed then; return both, in order. Empty:
    no tier has room."""
    tier = draft.tier(idle)
    if tier is None:
        return []
    draft.choose(idle, tier)
    changes = [(idle, tier)]
    last = max((at for at, wait in enumerate(now.stalls) if wait > 0), default=draft.count)
    for each in _latest_copied(draft, last) if releases else ():
        if each != idle and draft.device.fits(each.last + 1, each.next, each.size):
            changes.append((each, draft.chosen[each]))
            draft.release(each)
    return changes


def _latest_copied(draft: Draft, last: int) -> Sequence[Idle]:
    """Chosen idle times whose copies begin before operation `last`, the latest first."""
    copied = ((draft.copied_after(each), each) for each in draft.chosen)
    early = [(at, each) for at, each in copied if 0 <= at < last]
    return [each for _, each in sorted(early, key=lambda pair: (-pair[0], pair[1].tensor))]
