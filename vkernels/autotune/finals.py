"""Finals: duels that are repeated until it is sure who wins, for other load makes a single one's intervals wide.

What others do on the cores falls on all rivals of a duel alike, so that the ratio of two times says more than each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .measure import Failed, Measured, Outcome
from .measure.intervals import interval, is_sure, median

ROUNDS = 6
"""Duels, at most: of as many, all of which agree, chance makes so one time in 32."""
WORTHWHILE = 0.01
"""Part of a plan's time that another one must win, measured in turns, to be taken in its place."""


def is_surely_faster(one: Measured, other: Measured) -> bool:
    """By more than a little, and so that the interval of either's time leaves out the other's; and its upper end is the
    lower one, by which databases rank."""
    worthwhile = one.seconds < (1 - WORTHWHILE) * other.seconds
    return worthwhile and one.high < other.high and (one.high < other.seconds or one.seconds < other.low)


def fight_out(duel: Callable[[], Sequence[Outcome]], base: int, may: Callable[[int], bool]) -> list[Outcome]:
    """Duels until some rival is surely faster than the one of number `base`, or none seems so, or there were `ROUNDS`.

    `may`: whether there is time for one more, after so many. Times are in the end those of the base, in the median, and
    of the others by the ratio to that in each duel; intervals are those of the ratios, as soon as these are enough.
    """
    rounds = [list(duel())]
    while len(rounds) < ROUNDS and _is_open(combined(rounds, base), base) and may(len(rounds)):
        rounds.append(list(duel()))
    return combined(rounds, base)


def combined(rounds: Sequence[Sequence[Outcome]], base: int) -> list[Outcome]:
    """The outcomes of several duels as those of one; who failed in one has failed."""
    if len(rounds) == 1:
        return list(rounds[0])
    ours = [outcomes[base] for outcomes in rounds]
    usual = median([each.seconds for each in ours if isinstance(each, Measured)] or [1.0])
    found: list[Outcome] = []
    for number in range(len(rounds[0])):
        times: list[Measured] = []
        failed: Failed | None = None
        for outcomes in rounds:
            each = outcomes[number]
            if isinstance(each, Measured):
                times.append(each)
            else:
                failed = failed or each
        if failed is not None:
            found.append(failed)
            continue
        ratios = [
            each.seconds / (own.seconds if isinstance(own, Measured) else usual)
            for each, own in zip(times, ours, strict=True)
        ]
        middle = median(ratios)
        if not is_sure(len(rounds)):
            low, high = (middle * each for each in _widest(times))
        elif number == base:
            low, high = interval([each.seconds / usual for each in times])
        else:
            low, high = interval(ratios)
        found.append(
            Measured(
                usual * middle, usual * min(low, middle), usual * max(high, middle), sum(t.repeats for t in times),
                sum(t.disturbed for t in times) / len(times), any(t.loaded for t in times),
            )
        )  # fmt: skip
    return found


def _widest(times: Sequence[Measured]) -> tuple[float, float]:
    """The ends of the widest interval, as parts of its time."""
    return min(each.low / each.seconds for each in times), max(each.high / each.seconds for each in times)


def _is_open(outcomes: Sequence[Outcome], base: int) -> bool:
    """Whether some rival seems faster than the base, and that is not sure."""
    own = outcomes[base]
    if not isinstance(own, Measured):
        return False
    others = [each for each in outcomes if isinstance(each, Measured)]
    best = min(others, key=lambda each: each.seconds)
    return best.seconds < (1 - WORTHWHILE) * own.seconds and not is_surely_faster(best, own)
