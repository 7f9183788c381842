"""Measure the CPU's rates once for a user and a machine, in a child process, when others leave half of the cores
alone.

Calls do not wait for it, and a process plans by the same rates from its first call to its last: the rates serve
later processes.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from vkernels.ir.fork_safe import fork_safe_lock
from vkernels.targets.host_cpu import cpu_limits

from .machine_load import free_memory, is_quiet

if TYPE_CHECKING:
    import subprocess

    from vkernels.ir.disk_cache import DiskCache

    from .calibrate_cpu import MeasureLaunch

CHILD = "vkernels.runtime.calibration_child"
CLAIM = "calibration"
START_SECONDS = 20.0
"""How long after a process's first compile the child starts: short scripts start none."""
RETRY_SECONDS = 3600.0
"""Other processes try again only so long after an attempt began."""
WAIT_SECONDS = 300.0
"""How long the child waits until others leave half of the cores alone, before it gives up."""
PAUSE_SECONDS = 5.0
ROOM = 2 << 30
"""Bytes of free memory without which nothing is measured: it takes a quarter of that."""


class BackgroundCalibration:
    """Starts the child of a session, once. `disk`: where rates are kept; None: there is none."""

    def __init__(self, disk: DiskCache | None):
        self._disk = disk
        self._lock = fork_safe_lock()
        self._child: subprocess.Popen[bytes] | None = None

    def begin(self, seconds: float = START_SECONDS) -> None:
        """Start the child in so many seconds, unless rates are known; called after a compile for the CPU. Takes no
        time, and is done once."""
        if self._disk is None:
            return
        with self._lock:
            disk, self._disk = self._disk, None
        if disk is None:
            return
        timer = threading.Timer(seconds, self._start, (disk,))
        timer.daemon = True
        with suppress(RuntimeError):  # no more threads, or the interpreter ends
            timer.start()

    def _start(self, disk: DiskCache) -> None:
        self._child = start_child(disk)


def start_child(disk: DiskCache) -> subprocess.Popen[bytes] | None:
    """Start the child process, unless rates are known, another one is at work or was in the last hour, or the cache
    cannot be written. The child goes on after this process."""
    import subprocess

    from vkernels.targets.cpu_rates import known_cpu_rates

    if known_cpu_rates(disk) is not None:
        return None
    claim = disk.claim(CLAIM, RETRY_SECONDS)
    if claim is None:
        return None
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", CHILD, str(disk.folder)], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, pass_fds=(claim,),
        )  # fmt: skip
    except (OSError, TypeError, ValueError):  # TypeError: this Python has no executable
        return None
    finally:
        os.close(claim)


def measure_when_idle(disk: DiskCache, seconds: float, launch: MeasureLaunch | None = None) -> bool:
    """Wait until others leave half of the cores alone, measure, and keep the rates; whether they are kept. Disturbed
    ones are not: another attempt follows."""
    from .calibrate_cpu import measure_and_store

    end = time.monotonic() + seconds
    while True:
        if free_memory() >= ROOM and is_quiet(cpu_limits().multiprocessors):
            found = measure_and_store(disk, launch=launch)
            if not found.disturbed:
                return found.stored
        if time.monotonic() + PAUSE_SECONDS > end:
            return False
        time.sleep(PAUSE_SECONDS)
