"""Fill the gaps between calls of higher priority with launches of low priority, on a device that cannot preempt.

Calls of low priority queue, each in its own thread. One goes to the device when it is predicted to end, with a margin,
before the next call of higher priority begins; of several that fit, the longest. A call that is longer is started in
*units*: ranges of its programs. A call of higher priority stops filling at once. It then waits for the units that are
on the device: `MOST_OUT` launches at most.

Gaps are predicted from profiles: see `LaunchProfile.gap_after`. Other processes of the user tell of their calls on the
device by its `DeviceBoard`.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from vkernels.ir.errors import SetupError
from vkernels.ir.fork_safe import fork_safe_lock

from .filling_calls import MARGIN, UNKNOWN_GAP, FillingStats, Learning, Out, Upper, Waiting, best_fit
from .launch_profile import LaunchProfile, Mark

if TYPE_CHECKING:
    from .device_board import DeviceBoard, OtherCall, OtherProcesses

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
PATIENCE, LONGEST_PATIENCE = 5e-5, 1e-3
"""Seconds after which a call that waits looks again, at least and at most. Each look takes time from other threads."""
LONGEST_WAIT = 0.1
"""Seconds after which a call of low priority starts a unit, whatever others do."""

STALE = 2e-3
"""Seconds for which launches of other processes count as being on the device after they should have ended: their thread
may not look, and then nobody sees that they did."""
FRESH = 4 * LONGEST_PATIENCE
"""Seconds after which a call of another process that does not look any more does not count as waiting."""
THREADS_SHOWN = 8
"""Threads of higher priority that other processes see each by itself."""

_log = logging.getLogger(__name__)

in_use = False
"""Whether the process has used priorities."""


class GapFilling:
    """Who calls on one device, and what waits for a gap. `clock`: gives seconds; `board`: of all processes."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter, board: DeviceBoard | None = None) -> None:
        self._clock, self._board = clock, board
        self._others: OtherProcesses | None = None
        self._changed = threading.Condition(fork_safe_lock())
        self._uppers: list[Upper] = []
        self._queue: list[Waiting] = []
        self._out: list[Out] = []
        self._learning: list[Learning] = []
        self._starting = False
        self._low_seen = float("-inf")
        self._launched = 0
        self._stats = FillingStats()

    @property
    def has_low(self) -> bool:
        """Whether calls of low priority wait, or did of late; otherwise nobody needs to be looked after."""
        now = self._clock()
        return (
            bool(self._queue)
            or now - self._low_seen < RECENT
            or (self._board is not None and self._board.has_low(now, RECENT))
        )

    def stats(self) -> FillingStats:
        """What was done by now."""
        with self._changed:
            return self._stats

    def wants_parts(self, profile: LaunchProfile) -> bool:
        """Whether a unit of such a call is longer than every second gap that it could go into."""
        seconds = profile.seconds
        with self._changed:
            gaps = [u.profile.gaps for u in self._uppers if u.profile is not None and u.profile.is_frozen]
            gaps += [call.gaps for call in self._other_calls if call.gaps]
        return seconds is not None and any(MARGIN * seconds > each[len(each) // 2] for each in gaps)

    def enter(self) -> Upper:
        """A thread that calls with higher priority."""
        upper = Upper()
        with self._changed:
            self._forget_gone(self._clock())
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
            if self._board is not None:
                if upper.slot is None:
                    self._forget_gone(now)
                    upper.slot = self._free_slot()
                self._board.begin_call(upper.slot)

    def end_upper(self, upper: Upper, profile: LaunchProfile, begin: Mark | None, end: Mark | None) -> None:
        """Its launches are in the stream, between these marks; None: there are none."""
        with self._changed:
            now = self._clock()
            upper.in_call = False
            if begin is None or end is None:
                upper.end, upper.done_at = None, now
                self._show_call(upper, now)
                return
            self._look_at_others(now)
            if self._fills == upper.fills and not self._out and not self._others_out:
                before = upper.profile
                if upper.begin is not None and before is not None and len(self._learning) < 256:
                    self._learning.append(Learning(before.note_gap, upper.begin, begin))
                self._learning.append(Learning(profile.note_duration, begin, end))
            self._learn()
            upper.profile, upper.begin, upper.end = profile, end, end
            upper.started = upper.seen_running = now
            upper.ends = max(self._free_at(now), upper.ends) + (profile.seconds or 0.0)
            upper.fills = self._fills
            self._show_call(upper, upper.ends)

    def start_at_once(self, call: Waiting) -> int:
        """How many units of a call may start now, 0 if it has to wait. Call `started` when they are in the stream."""
        with self._changed:
            call.since = self._low_seen = now = self._clock()
            if self._queue:
                return 0
            self._queue.append(call)
            try:
                return self._take_units(call, now)
            finally:
                self._leave_queue(call)

    def wait_for_gap(self, call: Waiting) -> int:
        """Wait until units of a call may start; returns how many. Call `started` when they are in the stream."""
        with self._changed:
            call.since = self._low_seen = self._clock()
            self._queue.append(call)
            try:
                while True:
                    now = self._clock()
                    if units := self._take_units(call, now):
                        return units
                    self._changed.wait(self._quiet_for(now))
            finally:
                self._leave_queue(call)

    def started(self, call: Waiting, units: int, begin: Mark | None, end: Mark | None) -> None:
        """Units of a call are in the stream, between these marks; None: none could be started."""
        with self._changed:
            self._starting = False
            if begin is not None and end is not None:
                now = self._clock()
                seconds = call.seconds(units)
                self._out.append(Out(call.profile, units, begin, end, self._free_at(now) + seconds, seconds))
                self._launched += 1
                before = self._stats
                self._stats = replace(
                    before,
                    fills=before.fills + 1,
                    parts=before.parts + (units < call.units),
                    seconds=before.seconds + seconds,
                )
            self._show_out(self._clock())
            self._changed.notify_all()

    def _quiet_for(self, now: float) -> float:
        """Seconds in which nothing is predicted to change for calls that wait."""
        ends = []
        if self._is_full(now):
            last_but_one = sorted([*(each.ends for each in self._out), now, self._others_end(now)])[-2]
            ends.append(min(last_but_one, self._free_at(now) - self._most_seconds))
        for upper in self._uppers:
            if upper.end is not None and upper.profile is not None and upper.profile.seconds is not None:
                ends.append(upper.started + upper.profile.seconds)
        ends += [call.ends for call in self._other_calls if not call.in_call]
        return min(max(PATIENCE, max(ends, default=now) - now), LONGEST_PATIENCE)

    def _take_units(self, call: Waiting, now: float) -> int:
        """How many units of a call start now; others start none meanwhile."""
        if self._board is None:
            units = self._units_for(call, now)
            self._starting |= units > 0
            return units
        self._board.saw_low(now)
        self._board.wait(self._queue[0].since, now)
        with self._board.starting() as has_lock:
            units = self._units_for(call, now) if has_lock else 0
            if units:
                self._starting = True
                self._board.put_out(len(self._out) + 1, self._free_at(now) + call.seconds(units))
                self._board.count_fill()
            return units

    def _units_for(self, call: Waiting, now: float) -> int:
        """How many units of a call may start now."""
        self._look(now)
        if self._starting or self._is_full(now):
            return 0
        if not self._has_uppers:
            return call.units
        if self._is_overdue(call, now):
            self._stats = replace(self._stats, overdue=self._stats.overdue + 1)
            return 1 if call.can_divide else call.units
        closes = [upper.closes(now) for upper in self._uppers]
        closes += [each.closes(now, MARGIN, UNKNOWN_GAP) for each in self._other_calls]
        room = min(closes) - self._free_at(now) - LATENCY
        if room == float("inf"):
            return self._chunk_of(call)
        chosen = best_fit(self._queue, room)
        return call.fitting(room) if chosen is call else 0

    def _is_overdue(self, call: Waiting, now: float) -> bool:
        """Whether a call waited so long that it starts a unit whatever others do: of all processes, the one that waits
        for longest."""
        is_first = self._queue[0] is call and (self._others is None or call.since <= self._others.waits_since)
        return is_first and now - call.since >= LONGEST_WAIT and not self._out and not self._others_out

    def _is_full(self, now: float) -> bool:
        """Whether as much of low priority is on the device as may be, or some of it is late: who knows when it ends."""
        out, is_long = len(self._out) + self._others_out, self._free_at(now) - now > self._most_seconds
        is_late = self._has_uppers and any(each.is_late(now) for each in self._out)
        return is_late or (out >= MOST_OUT and (is_long or out >= MOST_ALONE))

    @property
    def _most_seconds(self) -> float:
        return SHORT if self._has_uppers else CHUNK

    @property
    def _has_uppers(self) -> bool:
        return bool(self._uppers) or bool(self._other_calls)

    def _chunk_of(self, call: Waiting) -> int:
        """Units to start while nobody of higher priority is there, but may come back."""
        if not call.can_divide:
            return call.units
        each = call.profile.seconds
        return 1 if each is None else max(1, min(call.units, int(CHUNK / each) if each > 0 else call.units))

    def _free_at(self, now: float) -> float:
        return max(now, self._others_end(now), *(each.ends for each in self._out))

    def _look(self, now: float) -> None:
        """See what is done by now."""
        for upper in self._uppers:
            was_running = upper.end is not None
            upper.look(now)
            if was_running and upper.end is None and self._board is not None and upper.slot is not None:
                self._board.ended(upper.slot, upper.done_at)
        self._forget_gone(now)
        still, before = [], len(self._out)
        for each in self._out:
            if each.end.query():
                each.profile.note_duration(each.begin.elapsed_time(each.end) / 1e3 / each.units)
            else:
                still.append(each)
        self._out = still
        if len(still) < before and not self._starting:
            self._show_out(now)
        self._look_at_others(now)
        self._learn()

    def _forget_gone(self, now: float) -> None:
        """Forget threads that have not called for long."""
        for upper in [u for u in self._uppers if not u.in_call and u.end is None and now - u.done_at >= RECENT]:
            self._uppers.remove(upper)
            if self._board is not None and upper.slot is not None:
                slot, upper.slot = upper.slot, None
                if all(other.slot != slot for other in self._uppers):
                    self._board.forget_call(slot)

    # Other processes

    @property
    def _fills(self) -> int:
        """Launches of low priority so far."""
        return self._launched if self._board is None else self._board.fills

    @property
    def _other_calls(self) -> Sequence[OtherCall]:
        return () if self._others is None else self._others.calls

    @property
    def _others_out(self) -> int:
        return 0 if self._others is None else self._others.out

    def _others_end(self, now: float) -> float:
        return now if self._others is None else self._others.ends

    def _look_at_others(self, now: float) -> None:
        if self._board is not None:
            self._others = self._board.look(now, RECENT, STALE, FRESH)

    def _free_slot(self) -> int:
        """The place of a thread on the board; the last one where there are too many."""
        taken = {upper.slot for upper in self._uppers}
        return next((slot for slot in range(THREADS_SHOWN) if slot not in taken), THREADS_SHOWN - 1)

    def _show_call(self, upper: Upper, ends: float) -> None:
        if self._board is not None and upper.slot is not None:
            self._board.end_call(upper.slot, ends, upper.profile)

    def _show_out(self, now: float) -> None:
        if self._board is not None:
            self._board.put_out(len(self._out), max((each.ends for each in self._out), default=now))

    def _leave_queue(self, call: Waiting) -> None:
        self._queue.remove(call)
        self._low_seen = now = self._clock()
        if self._board is not None:
            self._board.saw_low(now)
            self._board.wait(self._queue[0].since if self._queue else None, now)

    def _learn(self) -> None:
        later = []
        for each in self._learning:
            if each.begin.query() and each.end.query():
                each.note(each.begin.elapsed_time(each.end) / 1e3)
            else:
                later.append(each)
        self._learning = later


def filling_of(device: int, identity: Callable[[int], str] | None = None) -> GapFilling:
    """How gaps of a device are filled. `identity`: tells it from all others, in all processes."""
    return FILLINGS.get(device) or FILLINGS.setdefault(device, GapFilling(board=_board_of(device, identity)))


def _board_of(device: int, identity: Callable[[int], str] | None) -> DeviceBoard | None:
    """The board of a device, if there can be one."""
    try:
        from .device_board import board_of

        return None if identity is None else board_of(identity(device))
    except (ImportError, SetupError) as error:  # there is none on Windows
        _log.warning("priorities on cuda:%s do not reach other processes: %s", device, error)
        return None


def filling_stats() -> dict[str, FillingStats]:
    """What was filled on each device on which calls of low priority were made."""
    return {f"cuda:{device}": filling.stats() for device, filling in sorted(FILLINGS.items())}


FILLINGS: dict[int, GapFilling] = {}
"""Those of this process, by the number of the device."""


def _after_fork_in_child() -> None:
    FILLINGS.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
