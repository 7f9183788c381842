"""Binaries of GPU launches: from the cache on disk, or compiled in child processes, as compilers may hang or abort."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from vkernels.ir.disk_cache import DiskCache

from .backends.triton_adapter import Binary
from .counters import CompileCounters
from .workers.compile_cached import compile_cached
from .workers.jobs import CompileFailure, CompileFailureReason, CompileJob, NoBinaryError
from .workers.workers import CompilePool

WORKERS = 2
"""Kernels seldom have more launches; each worker is a process with Triton in it, kept warm for the next kernel."""


class BinaryCompiler:
    """Compiles jobs in worker processes, which are started at first use, and stores binaries on `disk`."""

    def __init__(self, disk: DiskCache | None, counters: CompileCounters):
        self._disk, self._counters = disk, counters
        self._lock = threading.Lock()
        self._pool: CompilePool | None = None

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
        if self._pool is not None:
            self._pool.close()

    def forget_workers(self) -> None:
        """After a fork, in the child: the workers belong to the parent."""
        self._pool, self._lock = None, threading.Lock()

    def _workers(self) -> CompilePool:
        with self._lock:
            if self._pool is None:
                self._pool = CompilePool(WORKERS)
            return self._pool
