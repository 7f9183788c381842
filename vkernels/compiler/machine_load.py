"""How much others use the cores and the memory of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

IDLE = 0.1
"""Part of a core's time that others use at most where they leave it alone."""
CORES = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class Load:
    """A reading: idle and total seconds of each core that this process may use; empty where they are not known."""

    cores: Mapping[int, tuple[float, float]]

    def others_until(self, later: Load) -> dict[int, float]:
        """Part of each core's time that was not idle until a later reading: what other processes used, and other guests
        of a virtual machine's host, if this process slept. None where that is not known."""
        if self.cores.keys() != later.cores.keys():
            return {}
        parts = {}
        for core, (idle, until) in later.cores.items():
            was_idle, was_until = self.cores[core]
            parts[core] = 1 - (idle - was_idle) / (until - was_until) if until > was_until else 1.0
        return parts


def load_now(stat: Path = Path("/proc/stat")) -> Load:
    """The present reading."""
    return Load(_core_seconds(stat))


def _core_seconds(stat: Path) -> dict[int, tuple[float, float]]:
    if not hasattr(os, "sched_getaffinity") or not hasattr(os, "sysconf"):
        return {}
    usable, found = os.sched_getaffinity(0), {}
    with suppress(OSError, ValueError):
        tick = 1 / os.sysconf("SC_CLK_TCK")
        for line in stat.read_text().splitlines():
            name, *ticks = line.split()
            if name.startswith("cpu") and name[3:].isdecimal() and int(name[3:]) in usable:
                times = [int(each) * tick for each in ticks[:8]]  # what follows is counted in these
                found[int(name[3:])] = (sum(times[3:5]), sum(times))
    return found


def quiet_cores(wanted: int, seconds: float = 1.0) -> tuple[int, ...]:
    """The numbers of so many cores, or fewer, that others leave alone for some seconds, in which this process sleeps:
    hardware threads whose siblings they leave alone too, of different cores first. None where that is not known."""
    before = load_now()
    time.sleep(seconds)
    busy = before.others_until(load_now())
    found = []
    for core in busy:
        beside = _siblings(core)
        if max(busy.get(each, 0.0) for each in (core, *beside)) <= IDLE:
            found.append((sum(each < core for each in beside), core))
    return tuple(core for _, core in sorted(found)[:wanted])


def is_quiet(cores: int) -> bool:
    """Whether others leave at least half of so many cores alone. False where that is not known."""
    return 2 * len(quiet_cores(cores)) >= cores


def _siblings(core: int) -> list[int]:
    """The hardware threads that share a core with this one, and this one; none where that is not known."""
    found: list[int] = []
    with suppress(OSError, ValueError):
        text = (CORES / f"cpu{core}/topology/thread_siblings_list").read_text()
        for part in text.strip().split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    return found


def free_memory(root: Path = Path("/")) -> int:
    """Bytes of memory that neither the system nor this process's control group needs; 0 where that is not known."""
    with suppress(OSError, ValueError, StopIteration):
        lines = (root / "proc/meminfo").read_text().splitlines()
        free = 1024 * int(next(line for line in lines if line.startswith("MemAvailable")).split()[1])
        with suppress(OSError, ValueError):  # no limit
            group = root / "sys/fs/cgroup"
            granted, used = (int((group / f"memory.{name}").read_text()) for name in ("max", "current"))
            free = min(free, granted - used)
        return max(0, free)
    return 0
