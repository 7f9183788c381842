"""How much others use the cores and the memory of this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

IDLE = 0.1
"""Part of the cores' time that others use at most on an idle machine."""


@dataclass(frozen=True)
class Load:
    """Readings at one time. `cores`: idle and total seconds of each core that this process may use; empty where they
    are not known. `own`: processor seconds of this process."""

    cores: Mapping[int, tuple[float, float]]
    own: float

    def others_until(self, later: Load) -> float:
        """Part of the cores' time that other processes, and other guests of a virtual machine's host, used until a
        later reading; all of it where that is not known."""
        if not self.cores or self.cores.keys() != later.cores.keys():
            return 1.0
        busy = total = 0.0
        for core, (idle, until) in later.cores.items():
            was_idle, was_until = self.cores[core]
            total += until - was_until
            busy += until - was_until - (idle - was_idle)
        return max(0.0, busy - (later.own - self.own)) / total if total > 0 else 1.0


def load_now(stat: Path = Path("/proc/stat")) -> Load:
    """The present readings."""
    return Load(_core_seconds(stat), time.process_time())


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


def is_idle(seconds: float = 0.5) -> bool:
    """Whether others leave the cores alone, for so long. False where that is not known."""
    before = load_now()
    time.sleep(seconds)
    return before.others_until(load_now()) <= IDLE


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
