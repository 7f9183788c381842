"""Counters of what was compiled, since a session began."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class KernelCompiles:
    """Of the kernels of one name: how often code was made or loaded from disk, and how long that took."""

    compiles: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class CompileCounts:
    """`kernels`: by name. `binaries`: GPU binaries that were needed; `binaries_from_disk`: those of them that the cache
    on disk had."""

    kernels: Mapping[str, KernelCompiles] = field(default_factory=dict)
    binaries: int = 0
    binaries_from_disk: int = 0


class CompileCounters:
    """Counts compiles and binaries. May be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kernels: dict[str, KernelCompiles] = {}
        self._binaries = self._binaries_from_disk = 0

    def count_compile(self, kernel: str, seconds: float) -> None:
        """Code was made, or loaded from disk."""
        with self._lock:
            before = self._kernels.get(kernel, KernelCompiles())
            self._kernels[kernel] = KernelCompiles(before.compiles + 1, before.seconds + seconds)

    def count_binary(self, from_disk: bool) -> None:
        """A GPU binary was needed."""
        with self._lock:
            self._binaries += 1
            self._binaries_from_disk += from_disk

    def counts(self) -> CompileCounts:
        """The counts by now."""
        with self._lock:
            return CompileCounts(dict(self._kernels), self._binaries, self._binaries_from_disk)

    def renew_lock(self) -> None:
        """After a fork, in the child: the thread that held the lock may not exist."""
        self._lock = threading.Lock()
