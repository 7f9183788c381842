"""Counters of what was compiled, since a session began."""

from __future__ import annotations

from dataclasses import dataclass

from vkernels.ir.fork_safe import fork_safe_lock


@dataclass(frozen=True)
class KernelCompiles:
    """Of the kernels of one name: how often code was made or loaded from disk, and how long that took."""

    compiles: int = 0
    seconds: float = 0.0


class CompileCounters:
    """Counts compiles and binaries. May be used by several threads.

    `kernels`: by name. `binaries`: GPU binaries that were needed; `binaries_from_disk`: those of them that the cache on
    disk had.
    """

    def __init__(self) -> None:
        self.kernels: dict[str, KernelCompiles] = {}
        self.binaries = self.binaries_from_disk = 0
        self._lock = fork_safe_lock()

    def count_compile(self, kernel: str, seconds: float) -> None:
        """Code was made, or loaded from disk."""
        with self._lock:
            before = self.kernels.get(kernel, KernelCompiles())
            self.kernels[kernel] = KernelCompiles(before.compiles + 1, before.seconds + seconds)

    def count_binary(self, from_disk: bool) -> None:
        """A GPU binary was needed."""
        with self._lock:
            self.binaries += 1
            self.binaries_from_disk += from_disk
