"""Peak rates of this machine, measured in the same run as the results that are compared with them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.system_resources import ThreadPool
from vkernels.targets.host_cpu import cache_bytes, cpu_limits

COPY_BYTES = 128 << 20
"""Bytes that each core copies: far more than its caches."""
LEVEL_1 = 32 << 10
"""Bytes of a core's L1 where that is unknown."""


@dataclass(frozen=True)
class MachinePeaks:
    """Rates of all threads together. `copy`: bytes per second, read and written, of memory copies; `multiply_adds`: of
    float32 per second, in registers; `gathers`: edges per second of the fastest loop that only fetches rows of features
    by index, multiplies and adds: rows of one, two or four vectors, from half of a core's L1 or L2. Kernels fetch such
    rows, and neighbouring outputs fetch the same ones, which then are in L1."""

    copy: float
    multiply_adds: float
    gathers: float


def measure_peaks(threads: int, seed: int = 0) -> MachinePeaks:
    """Measure on this number of threads, in about a second."""
    from vkernels.compiler.calibrate_cpu import Measure
    from vkernels.compiler.calibration_loops import LOADED_VECTORS, MULTIPLY_ADDS, buffer, loops

    width = cpu_limits().register_bytes
    lanes = width // 4
    with ThreadPool(threads) as pool, loops(width) as code:
        measure = Measure(pool)

        def rate(per_step: float, work: list[tuple[Any, Any]]) -> float:
            return per_step * threads / measure.seconds_a_step(work)

        multiply = [(code.multiply, (buffer(2 * width),)) for _ in range(threads)]
        rows = {1: code.gather, 2: code.gather_2, 4: code.gather_4}

        def gathered(row: int, size: int) -> float:
            """Edges a second by rows of so many vectors, from so many bytes of each core."""
            places = _places(row, size // width, LOADED_VECTORS // row, seed)
            blocks = places.size * row // LOADED_VECTORS
            work = [(rows[row], (buffer(size), places, blocks)) for _ in range(threads)]
            return rate(places.size * row * lanes, work)

        copies = [(_copy, (buffer(COPY_BYTES), buffer(COPY_BYTES))) for _ in range(threads)]
        gathers = max(gathered(row, size) for row in rows for size in _near_sizes())
        # A gather includes a multiply-add, so it cannot be faster.
        multiply_adds = max(gathers, rate(MULTIPLY_ADDS * lanes, multiply))
        return MachinePeaks(rate(2 * COPY_BYTES, copies), multiply_adds, gathers)


def _near_sizes() -> tuple[int, int]:
    """Half of the bytes of a core's L1 and of its L2."""
    level_2 = cpu_limits().shared
    return min(cache_bytes(1, shared_out=True) or LEVEL_1, level_2) // 2, level_2 // 2


def _places(row: int, vectors: int, block: int, seed: int) -> NDArray[np.int32]:
    """The first vectors of rows, each once, in random order: as many as fill blocks of the loop."""
    order = np.random.default_rng(seed).permutation(vectors // row).astype(np.int32) * np.int32(row)
    return order[: max(block, order.size // block * block)]


def _copy(source: int, target: int, steps: int) -> None:
    """C's memmove, which releases Python's lock."""
    for _ in range(steps):
        ctypes.memmove(target, source, COPY_BYTES)
