"""Clocks for calls: of the CPU, and of a GPU's own events."""

from __future__ import annotations

import resource
import time
from collections.abc import Sequence
from typing import Any

from .timing import Sample, TimedCall

WAITED = 0.05
"""Part of a sample's time on one thread that it may wait, or others run in its place, before it counts as disturbed."""
GRAIN = 2e-5
"""Seconds of waiting that always happen."""


class CpuClock:
    """Wall time. On one of `threads` a sample is disturbed if it ran for less time than went by; being taken off the
    core for a moment, as the system's own work does to each sample of some milliseconds, is no matter. On several,
    where nobody knows for how long, it is if the system took a core from any thread of this process meanwhile."""

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
    """A GPU's own events around the calls, after its L2 was flushed; `device`: `cuda:0`; `torch` is given, so that
    tests need none."""

    def __init__(self, device: str, torch: Any):
        self._torch, self._device = torch, device
        level_2 = int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0)) or 64 << 20
        self._flush = torch.empty(2 * level_2, dtype=torch.int8, device=device)

    def now(self) -> float:
        return time.perf_counter()

    def sample(self, calls: Sequence[TimedCall]) -> Sample:
        """Each call is timed by itself, since the flush lies between them; a sample is the sum."""
        cuda = self._torch.cuda
        pairs = []
        for call in calls:
            self._flush.zero_()
            start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            pairs.append((start, end))
        cuda.synchronize(self._device)
        return Sample(sum(1e-3 * start.elapsed_time(end) for start, end in pairs))
