"""How long launches on a GPU take and their thread then leaves the device idle: measured first, then frozen.

Gaps that turn out otherwise are measured again: a program may have changed its ways, or another one measured them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

SAMPLES = 20
"""Launches of a profile."""
LATE = 0.75
"""Of durations, the quantile that predictions take."""
EARLY = 0.1
"""Of gaps, the quantile that predictions take."""

APART = 2.0
"""How many times as long as shorter ones gaps are that are predicted when the shorter ones are over."""

WRONG, JUDGED = 0.5, 20
"""Gaps are measured again when more than this part of the latest gaps, so many, was shorter than this part of what was
predicted. Of gaps as they were measured every tenth is shorter than predicted."""
JUDGED_DURATIONS = 4
"""Durations are measured again when more than half of the latest, so many, differed from the prediction by more than a
factor of 2."""
TELLING = 1e-4
"""Seconds of predicted gaps that are judged: when shorter ones end is not known as well."""


class Mark(Protocol):
    """A place in a stream, such as an event of torch's."""

    def query(self) -> bool:
        """Whether all work before it is done."""
        ...

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from this mark to a later one; both are done."""
        ...


@dataclass
class LaunchProfile:
    """Of calls that run the same code on the same sizes. Times are in seconds.

    `durations`: of one unit, which is the whole call or one of the ranges of programs that it can be divided into;
    `gaps`: from the end of a call to the begin of the next one of its thread. `kept`: how many of both are kept for
    other processes.
    """

    durations: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    kept: int = 0
    _was_short: list[bool] = field(default_factory=list)
    _latest: list[float] = field(default_factory=list, repr=False, compare=False)
    _of: list[float] | None = field(default=None, repr=False, compare=False)
    _count: int = field(default=0, repr=False, compare=False)
    _seconds: float | None = field(default=None, repr=False, compare=False)

    @property
    def seconds(self) -> float | None:
        """Seconds of a unit as predicted: of four, at most one takes longer. None before any was measured."""
        durations = self.durations
        if self._of is not durations or self._count != len(durations):
            ordered = sorted(durations)
            self._seconds = ordered[int(LATE * (len(ordered) - 1))] if ordered else None
            self._of, self._count = durations, len(durations)
        return self._seconds

    @property
    def is_frozen(self) -> bool:
        """Whether all is known that predictions of gaps need."""
        return len(self.durations) >= SAMPLES and len(self.gaps) >= SAMPLES

    def note_duration(self, seconds: float) -> None:
        """A unit took so long. Durations are measured again where most of the latest are not as predicted."""
        if len(self.durations) < SAMPLES:
            self.durations.append(seconds)
            return
        self._latest = [*self._latest[1 - JUDGED_DURATIONS :], seconds]
        predicted = self.seconds or 0.0
        wrong = [each for each in self._latest if not WRONG * predicted <= each <= predicted / WRONG]
        if len(wrong) > WRONG * JUDGED_DURATIONS:
            self.durations, self._latest, self.kept = wrong, [], 0

    def note_gap(self, seconds: float) -> None:
        if len(self.gaps) < SAMPLES:
            self.gaps.append(max(0.0, seconds))
            self.gaps.sort()

    @property
    def samples(self) -> int:
        """How many samples there are to keep: of durations, and of gaps where all are known; 0 where some are not."""
        known = len(self.durations), len(self.gaps)
        return sum(known) if known[0] >= SAMPLES and (known[1] == 0 or known[1] >= SAMPLES) else 0

    def recall(self, durations: Sequence[float], gaps: Sequence[float]) -> None:
        """Take samples that were measured before, in place of those that are not complete."""
        if len(self.durations) < SAMPLES:
            self.durations = list(durations)
        if len(self.gaps) < SAMPLES <= len(gaps):
            self.gaps = sorted(gaps)
        self.kept = self.samples

    def judge_gap(self, seconds: float) -> None:
        """A gap took so long by the host's clock. Gaps are measured again where most are shorter than predicted."""
        if not self.is_frozen or (predicted := _early(self.gaps)) < TELLING:
            return
        self._was_short.append(seconds < WRONG * predicted)
        if sum(self._was_short) > WRONG * JUDGED:
            self.gaps, self._was_short, self.kept = [], [], 0
        elif len(self._was_short) >= JUDGED:
            del self._was_short[0]

    def gap_after(self, elapsed: float) -> float | None:
        """How long a gap will be that lasts for `elapsed` by now; None where none was as long: the thread is away.

        It is the 10th percentile of all gaps; or, if it lasts longer, that of those that were longer, provided that
        they are a kind of their own, `APART` times as long. Else the next call is due: to guess again and again would
        be wrong in the end.
        """
        at = bisect_right(self.gaps, elapsed)
        longer = self.gaps[at:]
        if not longer:
            return None
        first = _early(self.gaps)
        if elapsed < first:
            return first
        found = _early(longer)
        return found if found >= APART * self.gaps[at - 1] else elapsed


def _early(ordered: Sequence[float]) -> float:
    return ordered[int(EARLY * (len(ordered) - 1))]
