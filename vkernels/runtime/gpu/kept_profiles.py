"""Profiles of launches that are kept with the session's profiles of calls, in its database, for later processes.

Both looking them up and keeping them is done in the background.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from vkernels.compiler.background import start_in_background
from vkernels.compiler.call_profiles import CallKey, CallProfile
from vkernels.compiler.default_session import default_session
from vkernels.ir.plan import Plan

from ..coordinator.launch_profile import SAMPLES, LaunchProfile

QUANTILES = (0.0, 0.25, 0.5, 0.75, 0.99, 1.0)
"""Of durations, those that profiles of calls have."""


class Profiled(Protocol):
    """The part of a `BoundGpuExecutable` that is used here."""

    plan: Plan
    call_key: Callable[[], CallKey] | None


def recall(bound: Profiled, profile: LaunchProfile, parts: int) -> None:
    """Fill a profile with what is kept of calls that were started in so many parts, as soon as that is found."""
    call_key, plan, known = bound.call_key, bound.plan, default_session().call_profiles
    if call_key is None:
        return

    def look_up() -> None:
        found = known.find(call_key(), plan, parts=parts)
        if found is not None:
            profile.recall(durations_of(found), found.gaps)

    start_in_background(look_up, "profiles of calls")


def keep(bound: Profiled, profile: LaunchProfile, parts: int) -> None:
    """Keep a profile for later processes."""
    call_key, plan, known = bound.call_key, bound.plan, default_session().call_profiles
    durations, gaps, profile.kept = tuple(profile.durations), tuple(profile.gaps), profile.samples
    if call_key is None:
        return

    def store() -> None:
        from ..profiling import profile_of

        found = profile_of(call_key(), plan, durations, gaps)
        known.keep([replace(found, gaps=tuple(sorted(gaps)), parts=parts)])

    start_in_background(store, "profiles of calls")


def durations_of(kept: CallProfile) -> list[float]:
    """As many durations as a profile has, with the quantiles that were kept."""
    times = kept.shortest, kept.lower, kept.p50, kept.upper, kept.p99, kept.longest
    return [float(each) for each in np.interp(np.linspace(0, 1, SAMPLES), QUANTILES, times)]
