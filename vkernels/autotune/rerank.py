"""Re-rank the best candidates: compare them in pairs, again and again, until it is sure which one is the fastest.

Other load on the cores slows all candidates of one comparison alike, so the ratio of two times says more than each.
Other load on memory slows some plans more than others, for seconds on end: only several comparisons show that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from .measure import Failed, Measurement, Outcome
from .measure.intervals import interval, interval_of_few, is_sure, median

ROUNDS, MAX_ROUNDS = 6, 12
"""Comparisons where a candidate seems faster than the base: six that agree are chance one time in 32; and the most
comparisons where that is still not sure."""
FEW_ROUNDS = 3
"""Comparisons whose ratios tell how sure they are; of fewer the intervals within each do."""
CONTENDERS = 7, 7, 3
"""Candidates that are compared with the base again, in each round after the first; the last number is for all later
rounds. One comparison is too coarse to leave out all but a few."""
WORTHWHILE = 0.01
"""Part of a plan's time that another one must win, measured in turns, to be taken in its place."""


def is_surely_faster(one: Measurement, other: Measurement) -> bool:
    """By more than a little, and so that the interval of either's time leaves out the other's; and its upper end is the
    lower one, by which databases rank."""
    worthwhile = one.seconds < (1 - WORTHWHILE) * other.seconds
    return worthwhile and one.high < other.high and (one.high < other.seconds or one.seconds < other.low)


def rerank(
    compare: Callable[[Sequence[int]], Sequence[Outcome]], count: int, base: int, may: Callable[[int, int], bool],
    spare: Callable[[], bool] = lambda: True, favourite: int | None = None,
) -> list[Outcome]:  # fmt: skip
    """Compare until no candidate seems faster than the one of number `base`, or one surely is after `ROUNDS`, or there
    were `MAX_ROUNDS`.

    `compare`: the candidates of these numbers; all `count` at first, then the base and as many `CONTENDERS` as that
    round has: those that seem fastest, and the `favourite`, which something else speaks for. `may`: whether there is
    time to time as many more, after so many in all; `spare`: even for a round that only makes surer what seems sure.
    Times are in the end those of the base, in the median, and of the others by the ratio to that in each comparison;
    intervals are those of the ratios, as soon as these are enough. Who fought no more at some time is as much slower
    than those who did as then.
    """
    rounds = [dict(enumerate(compare(range(count))))]
    while len(rounds) < MAX_ROUNDS:
        outcomes, fought = combined(rounds, base), sum(map(len, rounds))
        fighting = _fighting(outcomes, rounds, base, favourite)
        if not _goes_on(outcomes, base, len(rounds), spare) or not may(fought, len(fighting)):
            break
        rounds.append(dict(zip(fighting, compare(fighting), strict=True)))
    return combined(rounds, base)


def combined(rounds: Sequence[Mapping[int, Outcome]], base: int) -> list[Outcome]:
    """The outcomes of several rounds, by number, as those of one; what failed in one has failed. A candidate of a round
    was in all rounds before."""
    last = _of_last(rounds, base)
    found = dict(last)
    for count in reversed(range(1, len(rounds))):
        then = _of_last(rounds[:count], base)
        slower = max((_slower(then[number], last[number]) for number in last if number != base), default=1.0)
        found |= {number: _times(each, slower) for number, each in then.items() if number not in found}
    return [found[number] for number in rounds[0]]


def _of_last(rounds: Sequence[Mapping[int, Outcome]], base: int) -> dict[int, Outcome]:
    """What all rounds say of those that fought in the last one."""
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
    """How many times as long as at first a plan took in the end; 0 where it failed."""
    return often.seconds / once.seconds if isinstance(once, Measurement) and isinstance(often, Measurement) else 0.0


def _times(outcome: Outcome, factor: float) -> Outcome:
    if isinstance(outcome, Failed) or not factor:
        return outcome
    seconds, low, high = (factor * each for each in (outcome.seconds, outcome.low, outcome.high))
    return replace(outcome, seconds=seconds, low=low, high=high)


def _as_one(times: Sequence[Measurement], ratios: Sequence[float], usual: float, is_base: bool) -> Measurement:
    """One time of several. `ratios`: to the base's, which usually takes as long as is said."""
    middle, shown = median(ratios), [each.seconds / usual for each in times] if is_base else ratios
    if len(times) < FEW_ROUNDS:
        low, high = (middle * each for each in _widest(times))
    else:
        low, high = interval(shown) if is_sure(len(times)) else interval_of_few(shown)
    return Measurement(
        usual * middle, usual * min(low, middle), usual * max(high, middle), sum(each.repeats for each in times),
        sum(each.disturbed for each in times) / len(times), any(each.loaded for each in times),
    )  # fmt: skip


def _fighting(
    outcomes: Sequence[Outcome], rounds: Sequence[Mapping[int, Outcome]], base: int, favourite: int | None
) -> list[int]:  # fmt: skip
    """Who fights in the next round: of those of the last one the base, the favourite, and the fastest others."""
    places = CONTENDERS[min(len(rounds), len(CONTENDERS)) - 1]
    among = ((number, outcomes[number]) for number in rounds[-1] if number != base)
    timed = {number: each.seconds for number, each in among if isinstance(each, Measurement)}
    ordered = sorted(timed, key=lambda number: (number != favourite, timed[number]))
    return sorted({base, *ordered[:places]})


def _widest(times: Sequence[Measurement]) -> tuple[float, float]:
    """The ends of the widest interval, as parts of its time."""
    return min(each.low / each.seconds for each in times), max(each.high / each.seconds for each in times)


def _goes_on(outcomes: Sequence[Outcome], base: int, rounds: int, spare: Callable[[], bool]) -> bool:
    """Whether some rival seems faster than the base, or may be, and another comparison would tell more of that."""
    own = outcomes[base]
    if not isinstance(own, Measurement):
        return False
    if rounds < FEW_ROUNDS and spare():  # the base may have been lucky once
        return True
    others = [each for each in outcomes if isinstance(each, Measurement)]
    best = min(others, key=lambda each: each.seconds)
    if best.seconds >= (1 - WORTHWHILE) * own.seconds:
        return False
    return not is_surely_faster(best, own) or (rounds < ROUNDS and spare())
