"""A lower bound of the time of any schedule without recomputation, from capacity and link rates."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .links import MemoryMachine
from .schedule import idle_times
from .schedule_rooms import Numbers
from .trace import MemoryTrace


@dataclass(frozen=True)
class TimeBound:
    """`seconds` of an iteration at least, of which `waiting` is unavoidable. `between`: the operations in which the
    longest wait must be; None where nothing need wait."""

    seconds: float
    waiting: float
    between: tuple[int, int] | None


def lower_bound(trace: MemoryTrace, machine: MemoryMachine) -> TimeBound:
    """Return a lower bound of the time of an iteration.

    While operation p runs, at least `live - capacity` bytes are away. Those of them that are needed again before
    operation e were fetched between p and e; those that were written after operation s were copied between s and p.
    Either takes its bytes over the link's speed; what that exceeds the operations' own time is waited for. Waits of
    windows that do not overlap add up. Transfers are taken as fluid, latencies as none.
    """
    windows = _Windows(trace, machine)
    count = len(trace.operations)
    best = np.zeros(count + 1)
    longest, between = 0.0, None
    for end in range(1, count + 1):
        best[end] = best[end - 1]
        for start, wait in windows.ending.get(end, {}).items():
            best[end] = max(best[end], best[start] + wait)
            if wait > longest:
                longest, between = wait, ((start + windows.first) % count, (end + windows.first) % count)
    waiting = float(best[count])
    return TimeBound(trace.seconds + waiting, waiting, between)


class _Windows:
    """Waits that must be after operation `start` has ended and before operation `end` starts; operations are counted
    from `first` on, where the least is live."""

    def __init__(self, trace: MemoryTrace, machine: MemoryMachine):
        live = np.array(trace.live(), dtype=np.int64)
        self.first = int(live.argmin())
        self.count = len(live)
        seconds = np.roll([op.seconds for op in trace.operations], -self.first)
        self.starts = np.concatenate([[0.0], np.cumsum(seconds)])
        self.ending: dict[int, dict[int, float]] = {}
        self._gather(trace)
        away = np.roll(live - machine.device_bytes, -self.first)
        both_in = machine.from_host + machine.from_flash if machine.shared is None else machine.shared
        both_out = machine.to_host + machine.to_flash if machine.shared is None else machine.shared
        for at in np.flatnonzero(away > 0):
            here = self._around(int(at))
            for least, rate_in, rate_out in (
                (away[at], both_in, both_out),
                (away[at] - machine.host_bytes, machine.from_flash, machine.to_flash),
            ):
                if least > 0:
                    self._fetches(int(at), int(least), rate_in, here)
                    self._copies(int(at), int(least), rate_out, here)

    def _gather(self, trace: MemoryTrace) -> None:
        """Every idle time thrice, an iteration apart, so that what wraps is seen at both ends."""
        rows = []
        for each in idle_times(trace):
            written = -(4 * self.count) if each.written is None else each.written
            for turn in (-1, 0, 1):
                by = turn * self.count - self.first
                rows.append((each.last + by, each.next + by, written + by, each.size))
        table = np.array(rows or [(0, 0, 0, 0)], dtype=np.int64)
        self.last, self.next, self.written, self.size = table.T

    def _around(self, at: int) -> tuple[Numbers, ...]:
        there = (self.last < at) & (at < self.next)
        return self.next[there], self.written[there], self.size[there]

    def _fetches(self, at: int, least: int, rate: float, here: tuple[Numbers, ...]) -> None:
        """Of those away while `at` runs, what is needed by each later operation has come by then."""
        order = np.argsort(here[0], kind="stable")
        ends, sizes = here[0][order], here[2][order]
        later = sizes.sum() - np.cumsum(sizes)
        within = ends <= self.count
        waits = (least - later[within]) / rate - (self.starts[ends[within]] - self.starts[at + 1])
        for number in np.flatnonzero(waits > 0):
            self._add(at, int(ends[within][number]), float(waits[number]))

    def _copies(self, at: int, least: int, rate: float, here: tuple[Numbers, ...]) -> None:
        """Of those away while `at` runs, what was written last after each earlier operation was copied since."""
        order = np.argsort(-here[1], kind="stable")
        begins, sizes = here[1][order], here[2][order]
        earlier = sizes.sum() - np.cumsum(sizes)
        within = begins >= 0
        waits = (least - earlier[within]) / rate - (self.starts[at] - self.starts[begins[within] + 1])
        for number in np.flatnonzero(waits > 0):
            self._add(int(begins[within][number]), at, float(waits[number]))

    def _add(self, start: int, end: int, wait: float) -> None:
        known = self.ending.setdefault(end, {})
        known[start] = max(known.get(start, 0.0), wait)
