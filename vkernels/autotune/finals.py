"""Finals: duels that are repeated until it is sure who wins, for other load makes a single one's intervals wide.

What others do on the cores falls on all rivals of a duel alike, so that the ratio of two times says more than each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from .measure import Failed, Measured, Outcome
from .measure.intervals import interval, is_sure, median

ROUNDS = 6
"""Duels, at most: of as many, all of which agree, chance makes so one time in 32."""
CONTENDERS = 2
"""Rivals that fight the base again."""
WORTHWHILE = 0.01
"""Part of a plan's time that another one must win, measured in turns, to be taken in its place."""


def is_surely_faster(one: Measured, other: Measured) -> bool:
    """By more than a little, and so that the interval of either's time leaves out the other's; and its upper end is the
    lower one, by which databases rank."""
    worthwhile = one.seconds < (1 - WORTHWHILE) * other.seconds
    return worthwhile and one.high < other.high and (one.high < other.seconds or one.seconds < other.low)


def fight_out(
    duel: Callable[[Sequence[int]], Sequence[Outcome]], count: int, base: int, may: Callable[[int], bool]
) -> list[Outcome]:
    """Duels until some rival is surely faster than the one of number `base`, or none seems so, or there were `ROUNDS`.

    `duel`: of the rivals of these numbers; of all `count` at first, then of the base and the `CONTENDERS` that seem
    fastest. `may`: whether there is time for one more, after so many. Times are in the end those of the base, in the
    median, and of the others by the ratio to that in each duel; intervals are those of the ratios, as soon as these are
    enough.
    """
    rounds = [dict(enumerate(duel(range(count))))]
    fighting: list[int] = []
    while len(rounds) < ROUNDS and _is_open(found := combined(rounds, base), base) and may(len(rounds)):
        fighting = fighting or sorted({base, *_fastest(found)})
        rounds.append(dict(zip(fighting, duel(fighting), strict=True)))
    return combined(rounds, base)


def combined(rounds: Sequence[Mapping[int, Outcome]], base: int) -> list[Outcome]:
    """The outcomes of several duels, by number, as those of one; who failed in one has failed."""
    if len(rounds) == 1:
        return list(rounds[0].values())
    ours = [each.seconds for outcomes in rounds if isinstance(each := outcomes[base], Measured)]
    usual = median(ours or [1.0])
    found: list[Outcome] = []
    for number in rounds[0]:
        fought = [(outcomes[number], outcomes[base]) for outcomes in rounds if number in outcomes]
        failed = next((each for each, _ in fought if isinstance(each, Failed)), None)
        times = [each for each, _ in fought if isinstance(each, Measured)]
        ratios = [
            each.seconds / (own.seconds if isinstance(own, Measured) else usual)
            for each, own in fought
            if isinstance(each, Measured)
        ]
        found.append(_as_one(times, ratios, usual, number == base) if failed is None else failed)
    return found


def _as_one(times: Sequence[Measured], ratios: Sequence[float], usual: float, is_base: bool) -> Measured:
    """One time of several. `ratios`: to the base's, which usually takes as long as is said."""
    middle = median(ratios)
    if not is_sure(len(times)):
        low, high = (middle * each for each in _widest(times))
    else:
        low, high = interval([each.seconds / usual for each in times] if is_base else ratios)
    return Measured(
        usual * middle, usual * min(low, middle), usual * max(high, middle), sum(each.repeats for each in times),
        sum(each.disturbed for each in times) / len(times), any(each.loaded for each in times),
    )  # fmt: skip


def _fastest(outcomes: Sequence[Outcome]) -> list[int]:
    timed = {number: each.seconds for number, each in enumerate(outcomes) if isinstance(each, Measured)}
    return sorted(timed, key=lambda number: timed[number])[:CONTENDERS]


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
