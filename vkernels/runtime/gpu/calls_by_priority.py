"""Calls on a GPU by a process that uses priorities: those of low priority go into gaps between the others'.

A call of low priority keeps its thread waiting until its last launch is in the stream, so that what the thread does
next comes after it. Work that is captured into a graph is neither kept waiting nor marked.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Protocol
from weakref import WeakKeyDictionary

from vkernels.compiler import timeline
from vkernels.compiler.call_profiles import CallKey
from vkernels.compiler.protocols import KernelLike
from vkernels.ir.plan import Plan

from ..coordinator import get_priority
from ..coordinator.filling_calls import Upper, Waiting
from ..coordinator.gap_filling import GapFilling, filling_of, filling_stats
from ..coordinator.launch_profile import LaunchProfile, Mark
from ..coordinator.shown_company import show_fills
from .device import GpuDevice
from .kept_profiles import keep, recall
from .packing import Packed, Start

SHOWN_EVERY = 0.1
"""Seconds between two looks that others get at what was filled."""

Part = tuple[int, range | None]
"""A launch by its number, and a range of its programs; None: all."""


class Bound(Protocol):
    """The part of a `BoundGpuExecutable` that is used here."""

    device: GpuDevice
    packed: Packed
    plan: Plan
    kernel: KernelLike | None
    call_key: Callable[[], CallKey] | None

    @property
    def divided(self) -> Callable[[], Bound | None] | None: ...
    def start(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None: ...
    def start_parts(
        self, parts: Sequence[Part], addresses: Sequence[int], scalars: Sequence[bool | int | float], start: int
    ) -> None: ...


@dataclass
class _Known:
    """Of bound code: the parts that its calls can be started in, and profiles by the number of parts."""

    units: Sequence[Part]
    profiles: dict[int, LaunchProfile] = field(default_factory=dict)


class _Own(threading.local):
    """Of this thread: what its calls of higher priority are known by, on each device."""

    def __init__(self) -> None:
        self.uppers: dict[int, tuple[GapFilling, Upper]] = {}


_own = _Own()
_bounds: WeakKeyDictionary[Bound, _Known] = WeakKeyDictionary()
_shown_at = float("-inf")


def run_by_priority(bound: Bound, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
    """Start a call, of low priority when there is a gap for it."""
    driver = bound.device.driver
    with driver.on(bound.device.number):
        if driver.is_capturing():
            bound.start(addresses, scalars)
            return
        filling = filling_of(bound.device.number, driver.identity)
        if get_priority() == "low":
            _fill(bound, filling, addresses, scalars)
        elif filling.has_low:
            _run_first(bound, filling, lambda: bound.start(addresses, scalars))
        else:
            bound.start(addresses, scalars)


def _run_first(bound: Bound, filling: GapFilling, start: Callable[[], None]) -> None:
    known = _own.uppers.get(bound.device.number)
    if known is None or known[0] is not filling:
        known = _own.uppers[bound.device.number] = filling, filling.enter()
    upper, profile, driver = known[1], _profile_of(bound, 1), bound.device.driver
    begin: Mark | None = None
    end: Mark | None = None
    filling.begin_upper(upper)
    try:
        begin = driver.mark()
        start()
        end = driver.mark()
    finally:
        filling.end_upper(upper, profile, begin, end)
    if profile.samples > profile.kept:
        keep(bound, profile, 1)


def _fill(bound: Bound, filling: GapFilling, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
    if bound.divided is not None and filling.wants_parts(_profile_of(bound, len(_known(bound).units))):
        bound = bound.divided() or bound
    device, driver, units, at = bound.device.number, bound.device.driver, _known(bound).units, 0
    profile, memory, start = _profile_of(bound, len(units)), None, 0
    while at < len(units):
        call = Waiting(profile, len(units) - at, len(units) > 1)
        count = filling.start_at_once(call)
        if not count:
            with timeline.working("wait", bound.kernel) if bound.kernel is not None else nullcontext():
                count = filling.wait_for_gap(call)
        begin: Mark | None = None
        end: Mark | None = None
        try:
            begin = driver.mark()
            if count == len(units):
                bound.start(addresses, scalars)
            else:
                if memory is None and bound.packed.own_bytes:
                    memory = driver.allocate(device, bound.packed.own_bytes)
                    start = memory.data_ptr()
                bound.start_parts(joined(units[at : at + count]), addresses, scalars, start)
            end = driver.mark()
        finally:
            filling.started(call, count, begin, end)
        at += count
    if profile.samples > profile.kept:
        keep(bound, profile, len(units))
    _show()


def _show() -> None:
    """Show what was filled in `vk coordinate status`, now and then."""
    global _shown_at
    now = time.perf_counter()
    if now - _shown_at > SHOWN_EVERY:
        _shown_at = now
        found = filling_stats().values()
        show_fills(sum(each.fills for each in found), sum(each.seconds for each in found))


def units_of(starts: Sequence[Start]) -> list[Part]:
    """The least parts that a call can be started in, in order: launches, and ranges of programs of persistent ones."""
    units: list[Part] = []
    for number, each in enumerate(starts):
        if each.range_slots is None or each.waves < 2:
            units.append((number, None))
        else:
            bounds = range(0, each.programs, each.grid)
            units += [(number, range(first, min(first + each.grid, each.programs))) for first in bounds]
    return units


def joined(units: Sequence[Part]) -> list[Part]:
    """The same with adjacent ranges of a launch as one."""
    found: list[Part] = []
    for number, programs in units:
        before = found[-1] if found else (-1, None)
        if programs is not None and before[1] is not None and before[0] == number:
            found[-1] = number, range(before[1].start, programs.stop)
        else:
            found.append((number, programs))
    return found


def _known(bound: Bound) -> _Known:
    return _bounds.get(bound) or _bounds.setdefault(bound, _Known(units_of(bound.packed.starts)))


def _profile_of(bound: Bound, parts: int) -> LaunchProfile:
    """The profile of calls that are started in so many parts; one that is kept is there soon after it is asked for."""
    profiles = _known(bound).profiles
    profile = profiles.get(parts)
    if profile is None:
        profile = profiles.setdefault(parts, LaunchProfile())
        recall(bound, profile, parts)
    return profile
