"""Binaries for a launch: from the cache, or compiled in children of this process, which compilers may hang or abort."""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from functools import cache

from ..compile.cache import DiskCache
from ..compile.compile_cached import compile_cached
from ..compile.jobs import CompileFailure, CompileJob, NoBinaryError, Reason
from ..compile.triton_adapter import Binary
from ..compile.workers import CompilePool
from ..events import count_binary

WORKERS = 2
"""Kernels seldom have more launches; each worker is a process with Triton in it, kept warm for the next kernel."""


def compile_jobs(jobs: Sequence[CompileJob]) -> tuple[Binary, ...]:
    """The binary of each job.

    Raises `NoBinaryError` where a compiler takes too long, too much memory or dies, and `RuntimeError` where it refuses
    the text, since that was generated; `SetupError` where nothing can be compiled at all.
    """
    found: dict[int, Binary] = {}
    for finished in compile_cached(jobs, _pool(), _cache()):
        outcome = finished.outcome
        if isinstance(outcome, CompileFailure):
            kind = RuntimeError if outcome.reason is Reason.ERROR else NoBinaryError
            target = jobs[finished.index].architecture
            raise kind(f"Triton gives no code for {target} ({outcome.reason}): {outcome.message}")
        found[finished.index] = outcome.binary
        count_binary(finished.cached)
    return tuple(found[number] for number in range(len(jobs)))


@cache
def _cache() -> DiskCache:
    return DiskCache()


@cache
def _pool() -> CompilePool:
    pool = CompilePool(WORKERS)
    atexit.register(pool.close)
    return pool


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # its threads stay with the parent
