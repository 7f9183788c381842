"""Re-rank the best candidates: compare them repeatedly until it is sure which one is the fastest.

Load on the cores slows all candidates of one comparison equally, so ratios of times are more reliable than times.
Load on memory slows some plans more than others for seconds: only several comparisons reveal that.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from statistics import median

from .measure import Failed, Measurement, Outcome
from .measure.timing import interval, interval_of_few, is_sure

ROUNDS, MAX_ROUNDS = 6, 12
"""Number of comparisons if a candidate seems faster than the base (six agree by chance one time in 32), and the maximum
if that stays unsure."""
FEW_ROUNDS = 3
"""With fewer comparisons, the interval is that of the times rather than of the ratios."""
CONTENDERS = 7, 7, 3
"""Number of candidates in each comparison after the first; the last number is for all later ones. One comparison is too
coarse to leave out all but a few."""
WORTHWHILE = 0.01
"""Fraction of a plan's time that another one must save to replace it."""


def is_surely_faster(one: Measurement, other: Measurement) -> bool:
    """Whether a time is shorter by more than `WORTHWHILE`, and outside the other's interval, or the reverse.

    The upper end of its interval must be lower, too, because databases rank by that.
    """
    worthwhile = one.seconds < (1 - WORTHWHILE) * other.seconds
    return worthwhile and one.high < other.high and (one.high < other.seconds or one.seconds < other.low)


def rerank(
    compare: Callable[[Sequence[int]], Sequence[Outcome]], count: int, base: int, may: Callable[[int, int], bool],
    spare: Callable[[], bool] = lambda: True, favourite: int | None = None,
    beaten: Callable[[], Collection[int]] = tuple,
) -> list[Outcome]:  # fmt: skip
    """Compare until no candidate seems faster than number `base`, or one surely is after `ROUNDS`, or `MAX_ROUNDS`,
    or all others are beaten.

    `compare`: measures the candidates of these numbers: first all `count`, then the base and the `CONTENDERS` that seem
    fastest, including the `favourite`. `may(compared, more)`: whether there is time for so many more; `spare`: whether
    there is time even for a round that only confirms a result. `beaten`: candidates that cannot win, whatever their
    times; they do not go on. The final time of the base is its median; times of the others follow from their ratios to
    the base in each comparison, and so do the intervals if there are enough ratios. A candidate that dropped out keeps
    its ratio to those that stayed.
    """
    rounds = [dict(enumerate(compare(range(count))))]
    while len(rounds) < MAX_ROUNDS:
        outcomes, fought = combined(rounds, base), sum(map(len, rounds))
        out = beaten()
        fighting = _fighting(outcomes, rounds, base, favourite, out)
        rivals = [outcomes[number] for number in range(count) if number not in out]
        if (
            len(fighting) < 2
            or not _goes_on(rivals, outcomes[base], len(rounds), spare)
            or not may(fought, len(fighting))
        ):
            break
        rounds.append(dict(zip(fighting, compare(fighting), strict=True)))
    return combined(rounds, base)


def combined(rounds: Sequence[Mapping[int, Outcome]], base: int) -> list[Outcome]:
    """Combine the outcomes of several rounds, by number; a candidate that failed once has failed.

    Each candidate of a round was in all rounds before. One that dropped out keeps its ratio to the others that stayed,
    or to the base if that alone stayed: the machine may have become slower meanwhile.
    """
    last = _of_last(rounds, base)
    found = dict(last)
    for count in reversed(range(1, len(rounds))):
        then = _of_last(rounds[:count], base)
        stayed = [number for number in last if number != base] or [base]
        slower = max(_slower(then[number], last[number]) for number in stayed)
        found |= {number: scaled(each, slower) for number, each in then.items() if number not in found}
    return [found[number] for number in rounds[0]]


def _of_last(rounds: Sequence[Mapping[int, Outcome]], base: int) -> dict[int, Outcome]:
    if len(rounds) == 1:
        return dict(rounds[0])
    ours = [each.seconds for outcomes in rounds if isinstance(each := outcomes[base], Measurement)]
    usual = median(ours or [1.0])
    found: dict[int, Outcome] = {}
    for number in rounds[-1]:
        fought = [(outcomes[number], outcomes[base]) for outcomes in rounds]
        failed = next((each for each, _ in fought if isinstance(each, Failed)), None)
        times = [each for each, _ in fought if isinstance(each, Measurement)]
        ratios = [
            each.seconds / (own.seconds if isinstance(own, Measurement) else usual)
            for each, own in fought
            if isinstance(each, Measurement)
        ]
        found[number] = _as_one(times, ratios, usual, number == base) if failed is None else failed
    return found


def _slower(once: Outcome, often: Outcome) -> float:
    return often.seconds / once.seconds if isinstance(once, Measurement) and isinstance(often, Measurement) else 0.0


def scaled(outcome: Outcome, factor: float) -> Outcome:
    """An outcome whose seconds are multiplied by a factor, if it has any, and the factor is not 0."""
    if isinstance(outcome, Failed) or not factor:
        return outcome
    seconds, low, high = (factor * each for each in (outcome.seconds, outcome.low, outcome.high))
    return replace(outcome, seconds=seconds, low=low, high=high)


def _as_one(times: Sequence[Measurement], ratios: Sequence[float], usual: float, is_base: bool) -> Measurement:
    middle, shown = median(ratios), [each.seconds / usual for each in times] if is_base else ratios
    if len(times) < FEW_ROUNDS:
        low = middle * min(each.low / each.seconds for each in times)
        high = middle * max(each.high / each.seconds for each in times)
    else:
        low, high = interval(shown) if is_sure(len(times)) else interval_of_few(shown)
    return Measurement(
        usual * middle, usual * min(low, middle), usual * max(high, middle), sum(each.repeats for each in times),
        sum(each.disturbed for each in times) / len(times), any(each.loaded for each in times),
    )  # fmt: skip


def _fighting(
    outcomes: Sequence[Outcome], rounds: Sequence[Mapping[int, Outcome]], base: int, favourite: int | None,
    out: Collection[int],
) -> list[int]:  # fmt: skip
    places = CONTENDERS[min(len(rounds), len(CONTENDERS)) - 1]
    among = ((number, outcomes[number]) for number in rounds[-1] if number != base and number not in out)
    timed = {number: each.seconds for number, each in among if isinstance(each, Measurement)}
    ordered = sorted(timed, key=lambda number: (number != favourite, timed[number]))
    return sorted({base, *ordered[:places]})


def _goes_on(outcomes: Sequence[Outcome], own: Outcome, rounds: int, spare: Callable[[], bool]) -> bool:
    if not isinstance(own, Measurement):
        return False
    if rounds < FEW_ROUNDS and spare():  # the base may have been lucky once
        return True
    others = [each for each in outcomes if isinstance(each, Measurement)]
    best = min(others, key=lambda each: each.seconds)
    if best.seconds >= (1 - WORTHWHILE) * own.seconds:
        return False
    return not is_surely_faster(best, own) or (rounds < ROUNDS and spare())
