"""Tasks within `vk.cohost` whose calls meet on a GPU: how many share it, decided at each launch.

Side by side, each runs the plan for its part of the multiprocessors, as long as the sum of the bandwidth of memory that
they need is within what there is and `START` on top. Otherwise each has the plan for the whole device, and the device
runs their launches in turns.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from vkernels.ir.fork_safe import fork_safe_lock

from .cohost import LEASE, START


@dataclass
class _Present:
    """A task's latest call. `need`: the part of the bandwidth of memory that it takes."""

    need: float
    when: float


class GpuCompany:
    """The tasks of one device. `clock`: gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._lock = fork_safe_lock()
        self._present: dict[int, _Present] = {}

    def sharing(self, need: float) -> int:
        """This thread calls: how many tasks share the device now, 1 if it has all of it."""
        now, thread = self._clock(), threading.get_ident()
        with self._lock:
            self._present[thread] = _Present(need, now)
            left = [each for each, found in self._present.items() if now - found.when >= LEASE]
            for each in left:
                del self._present[each]
            tasks, needed = len(self._present), sum(found.need for found in self._present.values())
        return tasks if needed <= 1 + START else 1


COMPANIES: dict[int, GpuCompany] = {}
"""Those of this process, by the number of the device."""


def company_on(device: int) -> GpuCompany:
    """The tasks of a device."""
    return COMPANIES.get(device) or COMPANIES.setdefault(device, GpuCompany())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=COMPANIES.clear)
