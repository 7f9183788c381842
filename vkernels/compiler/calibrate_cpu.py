"""Measure the rates of this machine's CPU, once; docs/slices.md says how."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.thread_pools import ThreadPool
from vkernels.targets.cpu_rates import MeasuredCpuRates, known_cpu_rates, store_cpu_rates
from vkernels.targets.host_cpu import cpu_limits

from .calibration_loops import CHAIN_CYCLES, LOADED_VECTORS, MULTIPLY_ADDS, loops

SECONDS = 6e-3
"""How long one timed run takes, about."""

ROUNDS = 5
"""Timed runs, the fastest of which counts: whatever disturbs one only makes it slower."""

MAX_BYTES = 1 << 29
"""Memory that all threads together read, at most."""

HALVES = 0x3F0000003F000000
"""Two floats of 0.5: multiplied and added up they stay ordinary numbers."""


def calibrate_cpu(cache: DiskCache | None = None, again: bool = False) -> MeasuredCpuRates:
    """The rates of this machine's CPU: those on disk, or measured now, in a few seconds, and stored there.

    `cache`: where to store them, this user's cache unless given. `again`: measure in any case. Other work on the
    machine makes rates too low: measure again when it is idle.
    """
    found = None if again else known_cpu_rates(cache)
    if found is None:
        found = measure_cpu()
        store_cpu_rates(found, cache)
    return found


def measure_cpu() -> MeasuredCpuRates:
    """Measure now: time loops of our own machine code, on one core and on all that this process may use at once.

    What is nearer is never slower, nor many cores slower than one: where it seems so, something disturbed the run.
    """
    limits = cpu_limits()
    cores, width = limits.multiprocessors, limits.register_bytes
    with ThreadPool(cores) as threads, loops(width) as code:
        measure = Measure(threads, cores)
        clock = CHAIN_CYCLES / measure.seconds_a_step(1, [(code.chain, ())])
        alone = [(code.multiply, (buffer(2 * width),)) for _ in range(cores)]
        multiply = MULTIPLY_ADDS * width // 4 * cores / measure.seconds_a_step(cores, alone)

        def read(total: int, cores: int) -> float:
            """Bytes a second that cores read from their parts of so many bytes, over and over."""
            block = LOADED_VECTORS * width
            blocks = max(1, total // cores // block)
            work = [(code.read, (buffer(blocks * block), blocks)) for _ in range(cores)]
            return blocks * block * cores / measure.seconds_a_step(cores, work)

        far = min(4 * limits.cache, MAX_BYTES, max(limits.memory // 8, 1 << 24))
        core_memory = read(far, 1)
        memory = max(core_memory, read(min(far * cores, MAX_BYTES), cores))
        cache = max(memory, read(max(limits.cache // 2, 2 * limits.shared * cores), cores))
        shared = max(cache, read(limits.shared // 2 * cores, cores))
        return MeasuredCpuRates(clock, memory, core_memory, cache, shared, multiply)


def buffer(size: int) -> Any:
    """Bytes of memory, aligned to 64, that are there, not only promised: every page was written."""
    import numpy as np

    words = np.full(-(-size // 8) + 8, HALVES, dtype=np.int64)
    return words[-words.ctypes.data % 64 // 8 :]


Work = tuple[Callable[..., None], Sequence[Any]]
"""A loop, and what it is given before the number of its steps: arrays and numbers."""


class Measure:
    """Times loops that run on several threads at once."""

    def __init__(self, threads: ThreadPool, cores: int):
        self._threads, self._cores = threads, cores

    def seconds_a_step(self, cores: int, work: Sequence[Work]) -> float:
        """Seconds that one step takes, of the fastest round, once enough steps run to be timed."""
        steps = 1
        while (taken := self._fastest(work, steps)) < SECONDS / 4 and steps < 1 << 40:
            steps *= 4
        steps = max(1, round(steps * SECONDS / taken))
        return self._fastest(work, steps) / steps

    def _fastest(self, work: Sequence[Work], steps: int) -> float:
        return min(self._run(work, steps) for _ in range(ROUNDS))

    def _run(self, work: Sequence[Work], steps: int) -> float:
        """Seconds from the first start to the last end."""
        together = threading.Barrier(len(work))

        def run(function: Callable[..., None], values: Sequence[Any]) -> tuple[float, float]:
            addresses = [value if isinstance(value, int) else value.ctypes.data for value in values]
            together.wait()
            start = time.perf_counter()
            function(*addresses, steps)
            return start, time.perf_counter()

        times = list(self._threads.map(lambda pair: run(*pair), work))
        return max(end for _, end in times) - min(start for start, _ in times)
