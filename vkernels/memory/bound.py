"""A lower bound on the time of any schedule without recomputation, from capacity and link rates."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from .links import MemoryMachine
from .schedule import idle_times
from .trace import MemoryTrace


@dataclass(frozen=True)
class TimeBound:
    """The minimum `seconds` of an iteration, and those of `waiting` in it. `between`: the operations around the longest
    wait; None if nothing need wait."""

    seconds: float
    waiting: float
    between: tuple[int, int] | None


def lower_bound(trace: MemoryTrace, machine: MemoryMachine) -> TimeBound:
    """Return a lower bound on the time of an iteration.

    While operation p runs, at least `live - capacity` bytes are away. Those that are needed again before operation e
    are fetched between p and e; those that were written after operation s are copied between s and p. Either takes the
    bytes divided by the link's rate; the part that exceeds the operations' own time is waiting. Waits in windows that
    do not overlap add up. Transfers are fluid, without latency.
    """
    count = len(trace.operations)
    first, waits = _waits(trace, machine)
    best = np.zeros(count + 1)
    longest, between = 0.0, None
    for end in range(1, count + 1):
        best[end] = best[end - 1]
        for start, wait in waits[end].items():
            best[end] = max(best[end], best[start] + wait)
            if wait > longest:
                longest, between = wait, ((start + first) % count, (end + first) % count)
    waiting = float(best[count])
    return TimeBound(trace.seconds + waiting, waiting, between)


def _waits(trace: MemoryTrace, machine: MemoryMachine) -> tuple[int, defaultdict[int, dict[int, float]]]:
    """The operation where the least is live, and waits between operations, counted from it: by end, then by start."""
    live = np.array(trace.live(), dtype=np.int64)
    first, count = int(live.argmin()), len(live)
    starts = np.concatenate([[0.0], np.cumsum(np.roll([op.seconds for op in trace.operations], -first))])
    rows = [(0, 0, 0, 0)]
    lifetimes = trace.lifetimes()
    for each in idle_times(trace):
        written = -(4 * count) if each.written is None else each.written
        if each.written is None and not trace.tensors[each.tensor].is_global:  # an input, which arrives then
            start = lifetimes[each.tensor].start
            written = start if start <= each.last else start - count
        shifts = (turn * count - first for turn in (-1, 0, 1))  # three iterations, for times that wrap
        rows += [(each.last + by, each.next + by, written + by, each.size) for by in shifts]
    last, following, writes, sizes = np.array(rows, dtype=np.int64).T
    both_in = machine.from_host + machine.from_flash if machine.shared is None else machine.shared
    both_out = machine.to_host + machine.to_flash if machine.shared is None else machine.shared
    flash = (max(machine.from_flash, machine.flash_to_host or 0), max(machine.to_flash, machine.host_to_flash or 0))
    away = np.roll(live - machine.device_bytes, -first)
    found: defaultdict[int, dict[int, float]] = defaultdict(dict)
    for at in map(int, np.flatnonzero(away > 0)):
        there = (last < at) & (at < following)
        for least, rate_in, rate_out in (
            (away[at], both_in, both_out),
            (away[at] - machine.host_bytes, *flash),
        ):
            if least <= 0:
                continue
            for moments, rate, is_fetch in ((following[there], rate_in, True), (writes[there], rate_out, False)):
                order = np.argsort(moments if is_fetch else -moments, kind="stable")
                beyond = sizes[there].sum() - np.cumsum(sizes[there][order])
                within = (moments[order] >= 0) & (moments[order] <= count)
                edges = moments[order][within]
                begins, ends = (np.full_like(edges, at), edges) if is_fetch else (edges, np.full_like(edges, at))
                waits = (least - beyond[within]) / rate - (starts[ends] - starts[begins + 1])
                for number in np.flatnonzero(waits > 0):
                    known, begin = found[int(ends[number])], int(begins[number])
                    known[begin] = max(known.get(begin, 0.0), float(waits[number]))
    return first, found
