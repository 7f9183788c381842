"""The threads that torch computes with on a CPU: where to find the functions that run work on them."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from pathlib import Path

LIBRARY = "libtorch_cpu.so"


@dataclass(frozen=True)
class Team:
    """Addresses of OpenMP's functions: `parallel` runs a function on a team, `most` gives how many threads it has,
    `number` the number of the thread that calls it."""

    parallel: int
    most: int
    number: int


_forked = False


def torch_team() -> Team | None:
    """The functions of the OpenMP that torch has loaded; None where torch is not loaded, or does not use OpenMP.

    None too in a process that was forked: OpenMP's threads do not live on in a child, and it may wait for them forever.
    """
    torch = sys.modules.get("torch")
    file = getattr(torch, "__file__", None)
    if file is None or _forked or sys.platform != "linux":
        return None
    library = Path(file).parent / "lib" / LIBRARY
    if not library.exists() or not _is_loaded(torch):
        return None
    try:
        loaded = ctypes.CDLL(str(library))
        found = [getattr(loaded, name) for name in ("GOMP_parallel", "omp_get_max_threads", "omp_get_thread_num")]
    except (OSError, AttributeError):
        return None
    return Team(*(ctypes.cast(each, ctypes.c_void_p).value or 0 for each in found))


def _is_loaded(torch: object) -> bool:
    """Whether importing torch is complete, and it computes with OpenMP."""
    backends = getattr(torch, "backends", None)
    openmp = getattr(backends, "openmp", None)
    return openmp is not None and bool(openmp.is_available())


def _after_fork_in_child() -> None:
    global _forked
    _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
