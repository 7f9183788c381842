"""Measure profiles of calls: how long they take alone, and how soon their thread calls again."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from vkernels.compiler.call_profiles import CallKey, CallProfile, call_key
from vkernels.compiler.default_session import default_session
from vkernels.ir.fork_safe import fork_safe_lock
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import frozen

from .observed_calls import See, observe, stop_observing

if TYPE_CHECKING:
    from vkernels.compiler.compilation import Compilation

    from .events import LaunchRecord

LEAST_CALLS, MOST_CALLS = 20, 1_000_000
"""Calls of a profile."""


@dataclass
class Samples:
    """Seconds of calls, and of the gaps after them."""

    key: CallKey
    plan: Plan
    durations: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)

    def profile(self, beside: Sequence[str] = ()) -> CallProfile:
        """Their profile."""
        return profile_of(self.key, self.plan, self.durations, self.gaps, beside)


def profile_of(
    key: CallKey, plan: Plan, durations: Sequence[float], gaps: Sequence[float] = (), beside: Sequence[str] = ()
) -> CallProfile:
    """The profile of calls that took so many seconds, with so long gaps after them."""
    shortest, lower, p50, upper, p99, longest = map(float, np.quantile(durations, (0, 0.25, 0.5, 0.75, 0.99, 1)))
    gap, short_gap = map(float, np.quantile(gaps, (0.5, 0.1))) if gaps else (None, None)
    return CallProfile(
        key, plan, len(durations), shortest, lower, p50, upper, p99, longest, gap, short_gap, tuple(sorted(beside)),
        time.time(),
    )  # fmt: skip


class Profiling:
    """Measures the calls of kernels on the CPU while its `with` block runs, in all threads.

    `profiles`: what was found by now; after the block also stored, in the tuning database if one is in use.
    """

    def __init__(self, calls: int, renew: bool):
        self._calls, self._renew = calls, renew
        self._samples: dict[tuple[str, bytes], Samples] = {}
        self._before = threading.local()
        self._lock = fork_safe_lock()
        self._ended: tuple[CallProfile, ...] | None = None

    def __enter__(self) -> Profiling:
        observe(self)
        return self

    def __exit__(self, *_: object) -> None:
        stop_observing(self)
        known = default_session().call_profiles
        new = []
        self._ended = self.profiles
        for each in self._ended:
            before = known.find(each.key, each.plan)
            if self._renew or before is None or before.calls < each.calls:
                new.append(each)
        known.keep(new)

    @property
    def profiles(self) -> tuple[CallProfile, ...]:
        """The profiles of all calls that ran often enough alone."""
        if self._ended is not None:
            return self._ended
        with self._lock:
            samples = list(self._samples.values())
        return tuple(each.profile() for each in samples if len(each.durations) >= LEAST_CALLS)

    def watch(self, compilation: Compilation, record: LaunchRecord) -> See | None:
        """Observe calls of some code: see `CallObserver`."""
        if record.plan is None:
            return None
        key = call_key(compilation, compilation.request.arguments)
        with self._lock:
            samples = self._samples.setdefault((key.digest, frozen(record.plan)), Samples(key, record.plan))

        def see(start: float, end: float, is_alone: bool) -> None:
            before = getattr(self._before, "call", None)
            if before is not None and len(before[0].gaps) < self._calls:
                before[0].gaps.append(start - before[1])
            self._before.call = samples, end
            if is_alone and len(samples.durations) < self._calls:
                samples.durations.append(end - start)

        return see
