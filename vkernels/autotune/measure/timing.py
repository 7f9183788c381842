"""Repeats a call until it is sure how long it takes, and tells when others got in the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import ceil, exp, gcd, log
from typing import Protocol

from .effort import Effort
from .intervals import interval, is_narrow, median, widened
from .outcomes import Measurement

TimedCall = Callable[[], object]

MAX_CALLS_TOGETHER = 10_000
"""Calls of one sample, at most."""
WARM_CALLS = 2
"""Calls before any is timed: the first finds nothing in the caches, and one more lets the runtime settle."""
HOPELESS_PART = 0.2
"""Of the time for a candidate, after which one that is hopeless is known to be."""
WARM_PART = 0.2
"""Of the time for a candidate that warming up may take."""
PROBE_PART, MIN_PROBES, MAX_PROBES = 0.1, 3, 100
"""Part of the time for a candidate in which it is seen how fast the machine is just then, and calls for that."""


@dataclass(frozen=True)
class Sample:
    """Seconds of some calls together. `disturbed`: others ran in their place meanwhile. `own`: seconds without those
    others, where that can be told."""

    seconds: float
    disturbed: bool = False
    own: float | None = None


class CallClock(Protocol):
    """What times calls on one device."""

    def sample(self, calls: Sequence[TimedCall]) -> Sample:
        """Time some calls, one after another, as one sample."""
        ...

    def now(self) -> float:
        """Seconds of wall time from any moment on: for budgets."""
        ...


@dataclass
class Samples:
    """Seconds a call, of one candidate. `disturbed` ones are (as they were, without others) where that is known."""

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
        """Whether those that nobody disturbed are enough."""
        return len(self.clean) >= effort.least and is_narrow(self.clean, effort.width)

    def is_hopeless(self, effort: Effort, best: float) -> bool:
        """Whether even the shortest takes much more than the best candidate: of as many samples as any candidate has,
        or of some that took so long together that no passing disturbance explains it."""
        times = [*self.clean, *(seconds if own is None else own for seconds, own in self.disturbed)]
        enough = len(times) >= effort.least or sum(times) > HOPELESS_PART * effort.seconds
        return enough and min(times) > effort.hopeless * best

    def is_behind(self, effort: Effort, best: float) -> bool:
        """Whether it surely takes longer than the best candidate, so that how much longer hardly matters."""
        return len(self.clean) >= effort.least and interval(self.clean)[0] > effort.behind * best

    def measured(self, least: int, share: float, quiet: float) -> Measurement:
        """What the samples say, where others used `share` of the cores and less than `quiet` does not matter.

        Clean samples alone, if they are `least` at least, or nothing was disturbed. Else all of them, the disturbed
        ones without the others where that is known; the interval then reaches over all that was seen.
        """
        disturbed = len(self.disturbed) / self.count
        loaded = share > quiet
        enough = self.clean and (len(self.clean) >= least or not self.disturbed)
        used = self.clean if enough else self.clean + [own or seconds for seconds, own in self.disturbed]
        middle, (low, high) = median(used), interval(used)
        if not enough:
            low, high = min(used), max(used)
        if loaded:  # clean samples had the cores to themselves, though not the caches
            low, high = widened(low, high, min(share, disturbed))
        return Measurement(middle, min(low, middle), max(high, middle), len(used), disturbed, loaded or not enough)


class Rounds:
    """Seconds a call of several rivals, round by round. A rival's time is told by its part of its rounds: of the
    geometric mean of all rivals' times in the same round, which what slows a whole round does not change."""

    def __init__(self, rivals: int):
        self._rivals = rivals
        self._clean: list[list[float]] = []
        self._disturbed: list[list[float]] = []

    @property
    def count(self) -> int:
        return len(self._clean) + len(self._disturbed)

    def add(self, taken: Sequence[Sample], calls: Sequence[int]) -> None:
        """A sample of each rival. A round in which anybody was disturbed is; its times are then those without others,
        where that is known."""
        disturbed = any(sample.disturbed for sample in taken)
        times = [sample.own if sample.disturbed and sample.own is not None else sample.seconds for sample in taken]
        row = [max(each, 1e-9) / count for each, count in zip(times, calls, strict=True)]
        (self._disturbed if disturbed else self._clean).append(row)

    def is_sure(self, effort: Effort) -> bool:
        """Whether the rounds that nobody disturbed are enough for every rival."""
        parts = _parts(self._clean)
        return len(parts) >= effort.least and all(is_narrow(each, effort.width) for each in zip(*parts, strict=True))

    def measured(self, least: int, share: float, quiet: float) -> list[Measurement]:
        """What the rounds say, as `Samples.measured` does for one candidate."""
        enough = bool(self._clean) and (len(self._clean) >= least or not self._disturbed)
        rows = self._clean if enough else self._clean + self._disturbed
        disturbed, loaded = len(self._disturbed) / self.count, share > quiet
        usual = median([_mean(row) for row in rows])
        found = []
        for parts in zip(*_parts(rows), strict=True):
            low, high = interval(parts) if enough else (min(parts), max(parts))
            low, high = widened(low, high, min(share, disturbed)) if loaded else (low, high)
            middle = median(parts)
            ends = min(low, middle), max(high, middle)
            seconds, lower, higher = (usual * each for each in (middle, *ends))
            found.append(Measurement(seconds, lower, higher, len(rows), disturbed, loaded or not enough))
        return found


def _parts(rows: Sequence[Sequence[float]]) -> list[list[float]]:
    return [[each / _mean(row) for each in row] for row in rows]


def _mean(row: Sequence[float]) -> float:
    return exp(sum(map(log, row)) / len(row))


class Timer:
    """Times candidates with one clock; `others`: starts a watch, which then tells the part of the cores' time that
    others have used since."""

    def __init__(
        self, clock: CallClock, effort: Effort, others: Callable[[], Callable[[], float]] = lambda: lambda: 0.0
    ):
        self._clock, self._effort, self._others = clock, effort, others

    def time(
        self, calls: Sequence[TimedCall], best: float = float("inf"), restore: TimedCall = lambda: None
    ) -> Measurement:
        """How long a call takes. `calls`: the same call on different copies of its tensors, taken in turn; `restore`:
        done before each sample, untimed; `best`: the least seconds of any candidate so far.

        Where others used the cores meanwhile it is tried again, `tries` times in all, unless it is sure, surely behind
        or twice hopeless; a quiet try counts, else the shortest.
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
        return min(measured, key=lambda each: (each.loaded, each.seconds))  # what disturbs only adds time

    def probe(self, calls: Sequence[TimedCall], restore: TimedCall) -> float:
        """About how long a call takes, in a small part of a candidate's time."""
        ring, began, times = _Ring(calls), self._clock.now(), list[float]()
        restore()
        self._clock.sample(ring.next(1))
        while len(times) < MAX_PROBES:
            sample = self._clock.sample(ring.next(1))
            times.append(sample.seconds if sample.own is None else sample.own)
            if len(times) >= MIN_PROBES and self._clock.now() - began > PROBE_PART * self._effort.seconds:
                break
        return max(1e-9, median(times))

    def paired_comparison(
        self, rivals: Sequence[Sequence[TimedCall]], restores: Sequence[TimedCall]
    ) -> list[Measurement]:
        """The same for several candidates, a sample of each in turn, so that what changes with time changes for all.

        Nobody is always the first, and all get as many samples, until every interval is narrow or the time is over.
        """
        effort = self._effort
        together = [self._warm_up(calls, restore) for calls, restore in zip(rivals, restores, strict=True)]
        at = _Turns()
        rings = [_Ring(calls, at) for calls in rivals]  # nobody has a copy of the tensors that another just had
        skipped = _skipped(sum(together) + len(rivals), max(map(len, rivals)))
        rounds = Rounds(len(rivals))
        watch, began = self._others(), self._clock.now()
        while rounds.count < effort.most:
            order, taken = [*range(len(rivals))], [Sample(0.0)] * len(rivals)
            first = rounds.count % len(order)
            for number in order[first:] + order[:first]:
                restores[number]()
                self._clock.sample(rings[number].next(1))  # the other's traces in caches and predictors are not timed
                taken[number] = self._clock.sample(rings[number].next(together[number]))
            rounds.add(taken, together)
            at.taken += skipped
            if rounds.count < effort.least:
                continue
            over = self._clock.now() - began >= effort.seconds * len(rivals)
            if over or (_is_time(rounds.count) and rounds.is_sure(effort)):
                break
        return rounds.measured(effort.least, watch(), effort.quiet)

    def _warm_up(self, calls: Sequence[TimedCall], restore: TimedCall) -> int:
        """Call it, and find how many calls a sample needs."""
        effort = self._effort
        restore()
        ring, began = _Ring(calls), self._clock.now()
        least = float("inf")
        for number in range(max(WARM_CALLS, len(calls))):
            least = min(least, max(1e-9, self._clock.sample(ring.next(1)).seconds))
            took = self._clock.now() - began
            if took > effort.seconds or (number + 1 >= WARM_CALLS and took > WARM_PART * effort.seconds):
                break
        return max(1, min(MAX_CALLS_TOGETHER, ceil(effort.sample_seconds / least)))

    def _fill(
        self, samples: Samples, calls: Sequence[TimedCall], together: int, best: float, restore: TimedCall
    ) -> None:
        """Take samples until they are enough, hopeless, or the time is over."""
        effort, ring, began = self._effort, _Ring(calls), self._clock.now()
        while samples.count < effort.most:
            restore()
            samples.add(self._clock.sample(ring.next(together)), together)
            over = self._clock.now() - began >= effort.seconds
            if over and (samples.count >= effort.least or self._clock.now() - began >= 4 * effort.seconds):
                return
            if samples.is_hopeless(effort, best):
                return
            if _is_time(len(samples.clean)) and (samples.is_sure(effort) or samples.is_behind(effort, best)):
                return


@dataclass
class _Turns:
    """Calls taken so far."""

    taken: int = 0


class _Ring:
    """Calls in turn, going on where it left off; `at`: counts those of several rings together."""

    def __init__(self, calls: Sequence[TimedCall], at: _Turns | None = None):
        self._calls, self._at = calls, at or _Turns()

    def next(self, count: int) -> list[TimedCall]:
        first = self._at.taken
        self._at.taken += count
        return [self._calls[(first + number) % len(self._calls)] for number in range(count)]


def _skipped(taken: int, copies: int) -> int:
    """Copies to leave out after a round that takes so many, for everybody to come to every copy in the end."""
    return next(number for number in range(copies + 1) if gcd(taken + number, copies) == 1)


def _is_time(count: int) -> bool:
    """Whether to look at the interval again: not at every sample of many, since that takes time itself."""
    return count < 32 or count % (count // 16) == 0
