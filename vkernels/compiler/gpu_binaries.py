"""Binaries of GPU launches: from the cache on disk, or compiled in child processes, as compilers may hang or abort."""

from __future__ import annotations

import os
from collections.abc import Sequence

from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.fork_safe import fork_safe_lock

from .backends.triton_adapter import Binary
from .counters import CompileCounters
from .workers.compile_cached import compile_cached
from .workers.compile_pool import CompilePool
from .workers.jobs import CompileFailure, CompileFailureReason, CompileJob, NoBinaryError

WORKERS = 2
"""Kernels seldom have more launches; each worker is a process with Triton in it, kept warm for the next kernel."""


class BinaryCompiler:
    """Compiles jobs in worker processes, which are started at first use, and stores binaries on `disk`."""

    def __init__(self, disk: DiskCache | None, counters: CompileCounters):
        self._disk, self._counters = disk, counters
        self._pools: dict[int, CompilePool] = {}
        self._lock = fork_safe_lock()

    def compile(self, jobs: Sequence[CompileJob]) -> tuple[Binary, ...]:
        """The binary of each job.

        Raises `NoBinaryError` where a compiler takes too long, too much memory or dies, `RuntimeError` where it refuses
        the text, since that was generated, and `SetupError` where nothing can be compiled at all.
        """
        found: dict[int, Binary] = {}
        for finished in compile_cached(jobs, self._workers(), self._disk):
            outcome = finished.outcome
            if isinstance(outcome, CompileFailure):
                kind = RuntimeError if outcome.reason is CompileFailureReason.ERROR else NoBinaryError
                target = jobs[finished.index].architecture
                raise kind(f"Triton gives no code for {target} ({outcome.reason}): {outcome.message}")
            found[finished.index] = outcome.binary
            self._counters.count_binary(finished.cached)
        return tuple(found[number] for number in range(len(jobs)))

    def close(self) -> None:
        """End the workers."""
        pool = self._pools.pop(os.getpid(), None)
        if pool is not None:
            pool.close()

    def _workers(self) -> CompilePool:
        """The workers of this process: those of its parent, before a fork, are the parent's."""
        with self._lock:
            pool = self._pools.get(os.getpid())
            if pool is None:
                pool = self._pools[os.getpid()] = CompilePool(WORKERS)
            return pool
