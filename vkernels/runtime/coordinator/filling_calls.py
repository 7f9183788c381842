"""Calls on a device that cannot preempt: those that go first, those that wait for gaps, and those that fill them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .launch_profile import LaunchProfile, Mark

MARGIN = 1.25
"""By how much what is started may take longer than predicted."""
UNKNOWN_GAP = 0.1
"""Seconds after which a thread is away whose gaps are not known yet."""


class Upper:
    """A thread that calls with higher priority than low: its latest call, and when that ended. `ends`: when it is
    predicted to end; `slot`: the thread's place on the board of all processes."""

    def __init__(self) -> None:
        self.in_call = False
        self.profile: LaunchProfile | None = None
        self.begin: Mark | None = None
        self.end: Mark | None = None
        self.started = self.seen_running = self.done_at = float("-inf")
        self.ends = float("-inf")
        self.fills = -1
        self.slot: int | None = None

    def look(self, now: float) -> None:
        """Find out whether the latest call is done, and when it ended: not before it was last seen running."""
        if self.in_call or self.end is None:
            return
        if not self.end.query():
            self.seen_running = now
            return
        predicted = None if self.profile is None else self.profile.seconds
        ended = self.started if predicted is None else self.started + predicted
        self.done_at, self.end = min(max(ended, self.seen_running), now), None
        self.ends = self.done_at

    def closes(self, now: float) -> float:
        """When its next call is predicted to begin; in the past if it is at work, infinity if it is away."""
        if self.in_call or self.end is not None:
            return float("-inf")
        elapsed = now - self.done_at
        if self.profile is None or not self.profile.is_frozen:
            return float("inf") if elapsed > UNKNOWN_GAP else float("-inf")
        gap = self.profile.gap_after(elapsed)
        return float("inf") if gap is None else self.done_at + gap


@dataclass(eq=False)
class Waiting:
    """A call of low priority. `units`: those that are left; `can_divide`: whether they can be started apart."""

    profile: LaunchProfile
    units: int
    can_divide: bool
    since: float = 0.0

    def fitting(self, room: float) -> int:
        """How many units are done within so many seconds, with the margin."""
        each = self.profile.seconds
        if each is None or room <= 0:
            return 0
        if room == float("inf"):
            return self.units
        count = int(room / (MARGIN * each)) if each > 0 else self.units
        return min(self.units, count) if self.can_divide or count >= self.units else 0

    def seconds(self, units: int) -> float:
        return units * (self.profile.seconds or 0.0)


@dataclass
class Out:
    """Units on the device. `ends`: when they are predicted to end, after so many `seconds`."""

    profile: LaunchProfile
    units: int
    begin: Mark
    end: Mark
    ends: float
    seconds: float

    def is_late(self, now: float) -> bool:
        """Whether they take longer than predicted, with the margin, if they are not done."""
        return now > self.ends + (MARGIN - 1) * self.seconds


@dataclass(frozen=True)
class FillingStats:
    """What gap filling did on a device. `fills`: launches of low priority that were started between calls of higher
    priority; `parts`: those of them that were parts of a call; `seconds`: as predicted; `overdue`: started after the
    longest wait."""

    fills: int = 0
    parts: int = 0
    seconds: float = 0.0
    overdue: int = 0


@dataclass
class Learning:
    """Marks of which a sample is taken when they are done. `fills`: launches of low priority before the first."""

    note: Callable[[float], None]
    begin: Mark
    end: Mark
    units: int = 1


def best_fit(queue: Sequence[Waiting], room: float) -> Waiting | None:
    """The call that fills most of a gap of so many seconds; of equal ones, that which waits for longest."""
    filled = [(call.seconds(units), call) for call in queue if (units := call.fitting(room))]
    return max(filled, key=lambda each: each[0])[1] if filled else None
