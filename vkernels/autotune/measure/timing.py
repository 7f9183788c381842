"""Repeat a call until its time is known well enough; detect disturbances and drift of the machine's speed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import count, islice, repeat
from math import ceil, comb, exp, gcd, log, sqrt
from statistics import fmean, median, stdev
from typing import Protocol

from .measures import Effort, Measurement

CONFIDENCE = 0.95
TAIL = 0.99
"""The percentile of samples that measurements hold."""


def interval(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Two of the values that enclose the distribution's median with at least this probability.

    Each value is equally likely to be above or below the median, so the probability that the median is outside the k
    lowest and k highest of n values follows from the binomial distribution, whatever the distribution of the values. If
    n is too small for any interval (see `is_sure`), the lowest and the highest value are returned.
    """
    ordered = sorted(values)
    left_out = max(0, ranks(len(ordered), confidence))
    return ordered[left_out], ordered[-1 - left_out]


def interval_of_few(values: Sequence[float], confidence: float = CONFIDENCE) -> tuple[float, float]:
    """Student's interval of the mean of positive values, which assumes that their logarithms are normally distributed.

    It works for three values, where `interval` needs six. Raises `ValueError` for fewer than two.
    """
    if len(values) < 2:
        raise ValueError(f"the spread of {len(values)} values is not known")
    from scipy.special import stdtrit

    logs = [log(value) for value in values]
    reach = float(stdtrit(len(logs) - 1, (1 + confidence) / 2)) * stdev(logs) / sqrt(len(logs))
    return exp(fmean(logs) - reach), exp(fmean(logs) + reach)


def is_sure(count: int, confidence: float = CONFIDENCE) -> bool:
    """Whether this many values are enough for an interval of this confidence."""
    return ranks(count, confidence) >= 0


@cache
def ranks(count: int, confidence: float = CONFIDENCE) -> int:
    """The number of values that may be left out on either side; -1 if all of them are too few."""
    outside, left_out = 0, -1
    whole = 1 << count
    while left_out + 1 < (count + 1) // 2:
        outside += comb(count, left_out + 1)  # the median is below the value of this rank
        if whole - 2 * outside < confidence * whole:
            break
        left_out += 1
    return left_out


def percentile(values: Sequence[float], part: float) -> float:
    """The least value that at least this part of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, ceil(part * len(ordered)) - 1)]


def is_narrow(values: Sequence[float], width: float, confidence: float = CONFIDENCE) -> bool:
    """Whether the interval is sure, and no wider than this fraction of the median."""
    if not is_sure(len(values), confidence):
        return False
    low, high = interval(values, confidence)
    return high - low <= width * median(values)


def widened(low: float, high: float, share: float) -> tuple[float, float]:
    """Widen an interval of times, of which this share may have been other processes'."""
    return low * (1 - min(0.9, share)), high * (1 + share)


TimedCall = Callable[[], object]

MAX_CALLS_TOGETHER = 10_000
WARM_CALLS = 2
"""Untimed calls at the start: the first fills the caches, another lets the runtime settle."""
HOPELESS_PART = 0.2
"""Share of a candidate's time after which it can be known to be hopeless."""
WARM_PART = 0.2
PROBE_PART, MIN_PROBES, MAX_PROBES = 0.1, 3, 100
"""Share of a candidate's time for probing the machine's present speed, and number of calls for that."""
NOTICED = 0.05
"""Smaller relative differences in speed are noise of the probe."""
MAX_FACTOR = 1.5
"""Maximal correction: larger slowdowns affect plans differently."""
SETTLED = 5
"""The median of this many probes is the usual time from then on."""


@dataclass(frozen=True)
class Sample:
    """Seconds of some calls together. `disturbed`: others used the core meanwhile. `own`: seconds without them."""

    seconds: float
    disturbed: bool = False
    own: float | None = None


class CallClock(Protocol):
    """Times calls on one device."""

    def sample(self, calls: Sequence[TimedCall]) -> Sample:
        """Time some calls, one after another, as one sample."""
        ...

    def now(self) -> float:
        """Wall time in seconds, for budgets."""
        ...


@dataclass
class Samples:
    """Seconds per call of one candidate. `disturbed`: in all, and without others if that is known."""

    clean: list[float] = field(default_factory=list)
    disturbed: list[tuple[float, float | None]] = field(default_factory=list)

    def add(self, sample: Sample, calls: int) -> None:
        seconds = max(sample.seconds, 1e-9) / calls
        if sample.disturbed:
            self.disturbed.append((seconds, None if sample.own is None else max(sample.own, 1e-9) / calls))
        else:
            self.clean.append(seconds)

    @property
    def count(self) -> int:
        return len(self.clean) + len(self.disturbed)

    def is_sure(self, effort: Effort) -> bool:
        """Whether there are enough undisturbed samples."""
        return len(self.clean) >= effort.least and is_narrow(self.clean, effort.width)

    def is_hopeless(self, effort: Effort, best: float) -> bool:
        """Whether even the shortest sample takes much longer than the best candidate.

        Only with as many samples as any candidate has, or with samples so long that no short disturbance explains it.
        """
        times = [*self.clean, *(seconds if own is None else own for seconds, own in self.disturbed)]
        enough = len(times) >= effort.least or sum(times) > HOPELESS_PART * effort.seconds
        return enough and min(times) > effort.hopeless * best

    def is_behind(self, effort: Effort, best: float) -> bool:
        """Whether it is surely slower than the best candidate, so that its exact time hardly matters."""
        return len(self.clean) >= effort.least and interval(self.clean)[0] > effort.behind * best

    def measured(self, least: int, share: float, quiet: float) -> Measurement:
        """The measurement, if others used `share` of the cores and less than `quiet` does not matter.

        It uses the clean samples if there are `least` of them, or nothing was disturbed. Otherwise it uses all samples,
        without the time of others if that is known; the interval then covers all of them.
        """
        disturbed, loaded = len(self.disturbed) / self.count, share > quiet
        enough = bool(self.clean) and (len(self.clean) >= least or not self.disturbed)
        used = self.clean if enough else self.clean + [own or seconds for seconds, own in self.disturbed]
        times = _estimate(used, enough, min(share, disturbed) if loaded else 0.0)
        return Measurement(*times, len(used), disturbed, loaded or not enough, percentile(used, TAIL))


class Rounds:
    """Seconds per call of several rivals, round by round.

    A rival's time follows from its share of each round, relative to the geometric mean of all rivals: a disturbance
    that slows a whole round does not change it.
    """

    def __init__(self, rivals: int):
        self._rivals = rivals
        self._clean: list[list[float]] = []
        self._disturbed: list[list[float]] = []

    @property
    def count(self) -> int:
        return len(self._clean) + len(self._disturbed)

    def add(self, taken: Sequence[Sample], calls: Sequence[int]) -> None:
        """Add a sample of each rival. One disturbed sample disturbs the round; its times exclude others if known."""
        disturbed = any(sample.disturbed for sample in taken)
        times = [sample.own if sample.disturbed and sample.own is not None else sample.seconds for sample in taken]
        row = [max(each, 1e-9) / count for each, count in zip(times, calls, strict=True)]
        (self._disturbed if disturbed else self._clean).append(row)

    def is_sure(self, effort: Effort) -> bool:
        """Whether there are enough undisturbed rounds for every rival."""
        parts = _parts(self._clean)
        return len(parts) >= effort.least and all(is_narrow(each, effort.width) for each in zip(*parts, strict=True))

    def measured(self, least: int, share: float, quiet: float) -> list[Measurement]:
        """The measurement of each rival, as `Samples.measured` for one candidate."""
        enough = bool(self._clean) and (len(self._clean) >= least or not self._disturbed)
        rows = self._clean if enough else self._clean + self._disturbed
        disturbed, loaded = len(self._disturbed) / self.count, share > quiet
        usual = median(map(_mean, rows))
        found = []
        for parts in zip(*_parts(rows), strict=True):
            times = _estimate(parts, enough, min(share, disturbed) if loaded else 0.0)
            seconds, low, high = (usual * each for each in times)
            tail = usual * percentile(parts, TAIL)
            found.append(Measurement(seconds, low, high, len(rows), disturbed, loaded or not enough, tail))
        return found


def _estimate(values: Sequence[float], enough: bool, others: float) -> tuple[float, float, float]:
    """The median and its interval. `others`: the share of the times that others may have used.

    Clean samples had the cores to themselves, but not the caches.
    """
    middle = median(values)
    low, high = widened(*(interval(values) if enough else (min(values), max(values))), others)
    return middle, min(low, middle), max(high, middle)


def _parts(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[each / _mean(row) for each in row] for row in rows]


def _mean(row: Sequence[float]) -> float:
    return exp(sum(map(log, row)) / len(row))


class Timer:
    """Times candidates with one clock.

    `others`: starts a watch, which later returns the share of the cores' time that others have used.
    """

    def __init__(
        self, clock: CallClock, effort: Effort, others: Callable[[], Callable[[], float]] = lambda: lambda: 0.0
    ):
        self._clock, self._effort, self._others = clock, effort, others

    def time(
        self, calls: Sequence[TimedCall], best: float = float("inf"), restore: TimedCall = lambda: None
    ) -> Measurement:
        """Measure the time of a call.

        `calls`: the same call on different copies of its tensors, used in turn; `restore`: runs before each sample,
        untimed; `best`: the least seconds of any candidate so far.

        If others use the cores, this retries, `tries` times in all, unless the result is sure, surely behind or twice
        hopeless. A quiet attempt counts, else the shortest.
        """
        effort = self._effort
        together = self._warm_up(calls, restore)
        found: list[tuple[float, Samples]] = []
        for _ in range(max(1, effort.tries)):
            watch, samples = self._others(), Samples()
            self._fill(samples, calls, together, best, restore)
            found.append((share := watch(), samples))
            hopeless = [each.is_hopeless(effort, best) for _, each in found]
            known = not hopeless[-1] and (samples.is_sure(effort) or samples.is_behind(effort, best))
            if share <= effort.quiet or known or hopeless[-2:] == [True, True]:
                break
        measured = [samples.measured(effort.least, share, effort.quiet) for share, samples in found]
        return min(measured, key=lambda each: (each.loaded, each.seconds))  # disturbances only add time

    def probe(self, calls: Sequence[TimedCall], restore: TimedCall) -> float:
        """Estimate the time of a call in a small share of a candidate's time."""
        at, began, times = count(), self._clock.now(), list[float]()
        restore()
        self._clock.sample(_next(calls, at, 1))
        while len(times) < MAX_PROBES:
            sample = self._clock.sample(_next(calls, at, 1))
            times.append(sample.seconds if sample.own is None else sample.own)
            if len(times) >= MIN_PROBES and self._clock.now() - began > PROBE_PART * self._effort.seconds:
                break
        return max(1e-9, median(times))

    def paired_comparison(
        self, rivals: Sequence[Sequence[TimedCall]], restores: Sequence[TimedCall], warm: bool = False
    ) -> list[Measurement]:
        """Measure several candidates, a sample of each in turn, so that changes over time affect all of them.

        The order rotates, and all get equally many samples, until every interval is narrow or the time is over. `warm`:
        all calls of a round use the same copy of the tensors, and each rival has used it just before its sample.
        """
        effort = self._effort
        together = [self._warm_up(calls, restore) for calls, restore in zip(rivals, restores, strict=True)]
        at = count()  # shared: no rival uses the copy of the tensors that another has just used
        copies, used = max(map(len, rivals)), sum(together) + len(rivals)
        skipped = next(number for number in range(copies + 1) if gcd(used + number, copies) == 1)  # all use all copies
        rounds = Rounds(len(rivals))
        watch, began = self._others(), self._clock.now()
        while rounds.count < effort.most:
            order, taken = [*range(len(rivals))], [Sample(0.0)] * len(rivals)
            first = rounds.count % len(order)
            turns = repeat(rounds.count) if warm else at
            for number in order[first:] + order[:first]:
                restores[number]()
                self._clock.sample(_next(rivals[number], turns, 1))  # untimed: clears a rival's traces in the caches
                taken[number] = self._clock.sample(_next(rivals[number], turns, together[number]))
            rounds.add(taken, together)
            list(islice(at, skipped))
            if rounds.count < effort.least:
                continue
            over = self._clock.now() - began >= effort.seconds * len(rivals)
            if over or (_is_check_due(rounds.count) and rounds.is_sure(effort)):
                break
        return rounds.measured(effort.least, watch(), effort.quiet)

    def _warm_up(self, calls: Sequence[TimedCall], restore: TimedCall) -> int:
        effort = self._effort
        restore()
        at, began = count(), self._clock.now()
        least = float("inf")
        for number in range(max(WARM_CALLS, len(calls))):
            least = min(least, max(1e-9, self._clock.sample(_next(calls, at, 1)).seconds))
            took = self._clock.now() - began
            if took > effort.seconds or (number + 1 >= WARM_CALLS and took > WARM_PART * effort.seconds):
                break
        return max(1, min(MAX_CALLS_TOGETHER, ceil(effort.sample_seconds / least)))

    def _fill(
        self, samples: Samples, calls: Sequence[TimedCall], together: int, best: float, restore: TimedCall
    ) -> None:
        effort, at, began = self._effort, count(), self._clock.now()
        while samples.count < effort.most:
            restore()
            samples.add(self._clock.sample(_next(calls, at, together)), together)
            over = self._clock.now() - began >= effort.seconds
            if over and (samples.count >= effort.least or self._clock.now() - began >= 4 * effort.seconds):
                return
            if samples.is_hopeless(effort, best):
                return
            if _is_check_due(len(samples.clean)) and (samples.is_sure(effort) or samples.is_behind(effort, best)):
                return


def _next(calls: Sequence[TimedCall], at: Iterator[int], number: int) -> list[TimedCall]:
    """The next calls in turn, so that consecutive calls use different copies of the tensors."""
    return [calls[turn % len(calls)] for turn in islice(at, number)]


def _is_check_due(number: int) -> bool:
    # Not after every sample, because checking itself takes time.
    return number < 32 or number % (number // 16) == 0


@dataclass
class DriftCorrection:
    """How much slower than usual the machine is.

    `probe`: measures the seconds of a known plan. `usual`: its usual seconds; None while unknown.
    """

    probe: Callable[[], float]
    usual: float | None = None
    _first: list[float] = field(default_factory=list)

    def now(self) -> float:
        """Present seconds divided by usual seconds; 1 if unsure. A second probe must confirm a difference."""
        seconds = self.probe()
        usual = self.usual
        if usual is None:
            self._first.append(seconds)
            usual = median(self._first)
            self.usual = usual if len(self._first) >= SETTLED else None
        times = seconds / usual
        if abs(times - 1) > NOTICED:
            times = min(times, self.probe() / usual, key=lambda each: abs(log(each)))
        return min(MAX_FACTOR, max(1 / MAX_FACTOR, times)) if abs(times - 1) > NOTICED else 1.0


def corrected_for_drift(measured: Measurement, times: float) -> Measurement:
    """Scale a measurement made while calls took `times` as long as usual to the usual speed."""
    seconds, low, high = (each / times for each in (measured.seconds, measured.low, measured.high))
    tail = None if measured.p99 is None else measured.p99 / times
    return replace(measured, seconds=seconds, low=low, high=high, p99=tail)
