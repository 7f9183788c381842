"""Fill the gaps between calls of higher priority with launches of low priority, on a device that cannot preempt.

Calls of low priority queue, each in its own thread. One goes to the device when it is predicted to end, with a margin,
before the next call of higher priority begins; of several that fit, the longest. A call that is longer is started in
*units*: ranges of its programs. A call of higher priority stops filling at once. It then waits for the units that are
on the device: `MOST_OUT` launches at most.

Gaps are predicted from profiles: see `LaunchProfile.gap_after`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from vkernels.ir.fork_safe import fork_safe_lock

from .launch_profile import LaunchProfile, Mark

MARGIN = 1.25
"""By how much what is started may take longer than predicted."""
LATENCY = 1e-5
"""Seconds from the decision to the begin of a launch."""
MOST_OUT = 2
"""Launches of low priority that are on the device at once, or more of them that take `SHORT` together."""
SHORT = 2e-4
"""Seconds of launches of low priority on the device for which a call of higher priority may have to wait."""
MOST_ALONE = 256
"""Launches on the device in any case. While no thread calls with higher priority they may take `CHUNK` together."""
CHUNK = 1e-3
"""Seconds of a launch of low priority while nobody of higher priority is there, but was of late."""
RECENT = 1.0
"""Seconds for which a thread counts as present after its last call."""
UNKNOWN_GAP = 0.1
"""Seconds after which a thread is away whose gaps are not known yet."""
PATIENCE, LONGEST_PATIENCE = 5e-5, 1e-3
"""Seconds after which a call that waits looks again, at least and at most. Each look takes time from other threads."""
LONGEST_WAIT = 0.1
"""Seconds after which a call of low priority starts a unit, whatever others do."""

in_use = False
"""Whether the process has used priorities."""


class Upper:
    """A thread that calls with higher priority than low: its latest call, and when that ended."""

    def __init__(self) -> None:
        self.in_call = False
        self.profile: LaunchProfile | None = None
        self.begin: Mark | None = None
        self.end: Mark | None = None
        self.started = self.seen_running = self.done_at = float("-inf")
        self.fills = -1

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
    """Units on the device. `ends`: when they are predicted to end."""

    profile: LaunchProfile
    units: int
    begin: Mark
    end: Mark
    ends: float


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
class _Learning:
    """Marks of which a sample is taken when they are done. `fills`: launches of low priority before the first."""

    note: Callable[[float], None]
    begin: Mark
    end: Mark
    units: int = 1


class GapFilling:
    """Who calls on one device, and what waits for a gap. `clock`: gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._changed = threading.Condition(fork_safe_lock())
        self._uppers: list[Upper] = []
        self._queue: list[Waiting] = []
        self._out: list[Out] = []
        self._learning: list[_Learning] = []
        self._starting = False
        self._low_seen = float("-inf")
        self._launched = 0
        self._stats = FillingStats()

    @property
    def has_low(self) -> bool:
        """Whether calls of low priority wait, or did of late; otherwise nobody needs to be looked after."""
        return bool(self._queue) or self._clock() - self._low_seen < RECENT

    def stats(self) -> FillingStats:
        """What was done by now."""
        with self._changed:
            return self._stats

    def wants_parts(self, profile: LaunchProfile) -> bool:
        """Whether a unit of such a call is longer than every second gap that it could go into."""
        seconds = profile.seconds
        with self._changed:
            gaps = [u.profile.gaps for u in self._uppers if u.profile is not None and u.profile.is_frozen]
        return seconds is not None and any(MARGIN * seconds > each[len(each) // 2] for each in gaps)

    def enter(self) -> Upper:
        """A thread that calls with higher priority."""
        upper = Upper()
        with self._changed:
            self._uppers.append(upper)
        return upper

    def begin_upper(self, upper: Upper) -> None:
        """A call of higher priority is about to start: nothing of low priority is started until it is done."""
        with self._changed:
            if upper not in self._uppers:
                self._uppers.append(upper)
            now = self._clock()
            upper.look(now)
            if upper.profile is not None:
                upper.profile.judge_gap(now - upper.done_at if upper.end is None else 0.0)
            upper.in_call = True

    def end_upper(self, upper: Upper, profile: LaunchProfile, begin: Mark | None, end: Mark | None) -> None:
        """Its launches are in the stream, between these marks; None: there are none."""
        with self._changed:
            now = self._clock()
            upper.in_call = False
            if begin is None or end is None:
                upper.end, upper.done_at = None, now
                return
            if self._launched == upper.fills and not self._out:
                before = upper.profile
                if upper.begin is not None and before is not None and len(self._learning) < 256:
                    self._learning.append(_Learning(before.note_gap, upper.begin, begin))
                self._learning.append(_Learning(profile.note_duration, begin, end))
            self._learn()
            upper.profile, upper.begin, upper.end = profile, end, end
            upper.started = upper.seen_running = now
            upper.fills = self._launched

    def start_at_once(self, call: Waiting) -> int:
        """How many units of a call may start now, 0 if it has to wait. Call `started` when they are in the stream."""
        with self._changed:
            call.since = self._low_seen = now = self._clock()
            if self._queue:
                return 0
            self._queue.append(call)
            units = self._units_for(call, now)
            self._queue.remove(call)
            self._starting |= units > 0
            return units

    def wait_for_gap(self, call: Waiting) -> int:
        """Wait until units of a call may start; returns how many. Call `started` when they are in the stream."""
        with self._changed:
            call.since = self._low_seen = self._clock()
            self._queue.append(call)
            try:
                while True:
                    now = self._clock()
                    units = self._units_for(call, now)
                    if units:
                        self._starting = True
                        return units
                    self._changed.wait(self._quiet_for(now))
            finally:
                self._queue.remove(call)
                self._low_seen = self._clock()

    def started(self, call: Waiting, units: int, begin: Mark | None, end: Mark | None) -> None:
        """Units of a call are in the stream, between these marks; None: none could be started."""
        with self._changed:
            self._starting = False
            if begin is not None and end is not None:
                now = self._clock()
                seconds = call.seconds(units)
                self._out.append(Out(call.profile, units, begin, end, max(now, self._free_at(now)) + seconds))
                self._launched += 1
                before = self._stats
                self._stats = replace(
                    before,
                    fills=before.fills + 1,
                    parts=before.parts + (units < call.units),
                    seconds=before.seconds + seconds,
                )
            self._changed.notify_all()

    def _quiet_for(self, now: float) -> float:
        """Seconds in which nothing is predicted to change for calls that wait."""
        ends = []
        if self._is_full(now):
            last_but_one = sorted(each.ends for each in self._out)[-2]
            ends.append(min(last_but_one, self._free_at(now) - self._most_seconds))
        for upper in self._uppers:
            if upper.end is not None and upper.profile is not None and upper.profile.seconds is not None:
                ends.append(upper.started + upper.profile.seconds)
        return min(max(PATIENCE, max(ends, default=now) - now), LONGEST_PATIENCE)

    def _units_for(self, call: Waiting, now: float) -> int:
        """How many units of a call may start now."""
        self._look(now)
        if self._starting or self._is_full(now):
            return 0
        if not self._uppers:
            return call.units
        if now - call.since >= LONGEST_WAIT and self._queue[0] is call and not self._out:
            self._stats = replace(self._stats, overdue=self._stats.overdue + 1)
            return 1 if call.can_divide else call.units
        room = min(upper.closes(now) for upper in self._uppers) - self._free_at(now) - LATENCY
        if room == float("inf"):
            return self._chunk_of(call)
        chosen = best_fit(self._queue, room)
        return call.fitting(room) if chosen is call else 0

    def _is_full(self, now: float) -> bool:
        """Whether as much of low priority is on the device as may be."""
        is_long = self._free_at(now) - now > self._most_seconds
        return len(self._out) >= MOST_OUT and (is_long or len(self._out) >= MOST_ALONE)

    @property
    def _most_seconds(self) -> float:
        return SHORT if self._uppers else CHUNK

    def _chunk_of(self, call: Waiting) -> int:
        """Units to start while nobody of higher priority is there, but may come back."""
        if not call.can_divide:
            return call.units
        each = call.profile.seconds
        return 1 if each is None else max(1, min(call.units, int(CHUNK / each) if each > 0 else call.units))

    def _free_at(self, now: float) -> float:
        return max(now, *(each.ends for each in self._out)) if self._out else now

    def _look(self, now: float) -> None:
        """See what is done by now."""
        for upper in self._uppers:
            upper.look(now)
        self._uppers = [u for u in self._uppers if u.in_call or u.end is not None or now - u.done_at < RECENT]
        still = []
        for each in self._out:
            if each.end.query():
                each.profile.note_duration(each.begin.elapsed_time(each.end) / 1e3 / each.units)
            else:
                still.append(each)
        self._out = still
        self._learn()

    def _learn(self) -> None:
        later = []
        for each in self._learning:
            if each.begin.query() and each.end.query():
                each.note(each.begin.elapsed_time(each.end) / 1e3)
            else:
                later.append(each)
        self._learning = later


def filling_of(device: int) -> GapFilling:
    """How gaps of a device are filled."""
    return FILLINGS.get(device) or FILLINGS.setdefault(device, GapFilling())


def filling_stats() -> dict[str, FillingStats]:
    """What was filled on each device on which calls of low priority were made."""
    return {f"cuda:{device}": filling.stats() for device, filling in sorted(FILLINGS.items())}


FILLINGS: dict[int, GapFilling] = {}
"""Those of this process, by the number of the device."""


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=FILLINGS.clear)


def best_fit(queue: Sequence[Waiting], room: float) -> Waiting | None:
    """The call that fills most of a gap of so many seconds; of equal ones, that which waits for longest."""
    filled = [(call.seconds(units), call) for call in queue if (units := call.fitting(room))]
    return max(filled, key=lambda each: each[0])[1] if filled else None
