"""Clocks for kernel calls on a CPU or GPU, and the load that other processes put on the cores."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .timing import Sample, TimedCall

WAITED = 0.05
"""A sample on one thread counts as disturbed if it waits for more than this share of its time."""
GRAIN = 2e-5
"""Seconds of waiting that are always tolerated."""


class CpuClock:
    """Wall time.

    On one of `threads`, a sample is disturbed if its processor time is much less than its wall time; the system's own
    short interruptions are tolerated. On several threads, where the duration of interruptions is unknown, it is
    disturbed if the system took a core from any thread of this process.
    """

    def __init__(self, threads: int):
        self._alone = threads == 1

    def now(self) -> float:
        return time.perf_counter()

    def sample(self, calls: Sequence[TimedCall]) -> Sample:
        switches = 0 if self._alone else _switches()
        own = time.thread_time()
        start = time.perf_counter()
        for call in calls:
            call()
        seconds = time.perf_counter() - start
        own = time.thread_time() - own
        if not self._alone:
            return Sample(seconds, _switches() != switches)
        return Sample(seconds, seconds - own > WAITED * seconds + GRAIN, min(own, seconds))


def _switches() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


class CudaClock:
    """A GPU's events around each call, after flushing its L2 unless the arguments are `warm`.

    `device`: `cuda:0`; `torch`: the module, or a fake.
    """

    def __init__(self, device: str, torch: Any, warm: bool = False):
        self._torch, self._device, self._warm = torch, device, warm
        if not warm:
            level_2 = int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or 64 << 20
            self._flush = torch.empty(2 * level_2, dtype=torch.int8, device=device)

    def now(self) -> float:
        return time.perf_counter()

    def sample(self, calls: Sequence[TimedCall]) -> Sample:
        """Time each call by itself, with a flush before it unless `warm`; the sample is the sum."""
        cuda = self._torch.cuda
        pairs = []
        for call in calls:
            if not self._warm:
                self._flush.zero_()
            start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            pairs.append((start, end))
        cuda.synchronize(self._device)
        return Sample(sum(1e-3 * start.elapsed_time(end) for start, end in pairs))


STATISTICS = Path("/proc/stat")
_USED = (0, 1, 2, 5, 6, 7)
"""Columns of busy time: user, nice, system, both kinds of interrupts, stolen from a virtual machine."""


@dataclass(frozen=True)
class Moment:
    """Seconds of wall time, of use of some cores, and of processor time of this process and its children."""

    wall: float
    used: float
    own: float


def busy_seconds(cores: Collection[int], file: Path = STATISTICS) -> float | None:
    """Seconds that some cores have been in use since the machine started; None if the system does not report it."""
    tick = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
    wanted = {f"cpu{core}" for core in cores}
    total, found = 0, 0
    try:
        for line in file.read_text().splitlines():
            words = line.split()
            if words and words[0] in wanted:
                numbers = [int(word) for word in words[1:]]
                total += sum(numbers[column] for column in _USED if column < len(numbers))
                found += 1
    except (OSError, ValueError):
        return None
    return total / tick if found == len(wanted) else None


def own_seconds() -> float:
    """Processor seconds of this process and its finished children."""
    used = os.times()
    return time.process_time() + used.children_user + used.children_system


class LoadWatch:
    """Measures how much others use some cores from now on; 0 if the system does not report it."""

    def __init__(
        self,
        cores: Collection[int],
        busy: Callable[[Collection[int]], float | None] = busy_seconds,
        own: Callable[[], float] = own_seconds,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._cores, self._busy, self._own, self._clock = tuple(cores), busy, own, clock
        self._ticks = 2 * len(self._cores) / (os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100)
        self._began = self._now()

    def others(self) -> float:
        """The share of these cores' time, 0 to 1, that others used, minus the rounding of the coarse counters."""
        began, now = self._began, self._now()
        if began is None or now is None or not self._cores:
            return 0.0
        wall = now.wall - began.wall
        by_others = (now.used - began.used) - (now.own - began.own) - self._ticks
        return min(1.0, max(0.0, by_others / (wall * len(self._cores)))) if wall > 0 else 0.0

    def _now(self) -> Moment | None:
        used = self._busy(self._cores)
        return None if used is None else Moment(self._clock(), used, self._own())
