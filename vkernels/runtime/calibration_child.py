"""The child process that measures the CPU: the least important process of the machine, which ends in any case."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from vkernels.compiler.background_calibration import WAIT_SECONDS, measure_when_idle
from vkernels.ir.disk_cache import DiskCache

from .launch_cost import measure_launch

MEASURE_SECONDS = 240
"""What measuring takes at most; the system ends the process then."""


def main(arguments: Sequence[str], wait: float = WAIT_SECONDS) -> None:
    """Measure when the machine is quiet, within `wait` seconds. `arguments`: the folder of the cache."""
    with suppress(OSError):
        os.nice(19)
    with suppress(OSError):  # where memory is short, this process goes first
        Path("/proc/self/oom_score_adj").write_text("1000")
    if hasattr(signal, "alarm"):
        signal.alarm(int(wait) + MEASURE_SECONDS)
    (folder,) = arguments
    measure_when_idle(DiskCache(Path(folder)), wait, measure_launch)


if __name__ == "__main__":
    main(sys.argv[1:])
