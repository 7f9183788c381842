"""Peak rates of this machine, measured in the same run as the results that are compared with them."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np

from vkernels.ir.system_resources import ThreadPool

COPY_BYTES = 128 << 20
"""Bytes that each core copies: far more than its caches."""


@dataclass(frozen=True)
class MachinePeaks:
    """Rates of all threads together. `copy`: bytes per second, read and written, of memory copies; `multiply_adds`: of
    float32 per second, in registers; `gathers`: edges per second of a loop that only fetches vectors of features by
    index from half a core's L2, multiplies and adds."""

    copy: float
    multiply_adds: float
    gathers: float


def measure_peaks(threads: int, seed: int = 0) -> MachinePeaks:
    """Measure on this number of threads, in about a second."""
    from vkernels.compiler.calibrate_cpu import Measure, buffer
    from vkernels.compiler.calibration_loops import LOADED_VECTORS, MULTIPLY_ADDS, loops
    from vkernels.targets.host_cpu import cpu_limits

    limits = cpu_limits()
    width, lanes = limits.register_bytes, limits.register_bytes // 4
    vectors = max(LOADED_VECTORS, limits.shared // 2 // width)
    blocks = vectors // LOADED_VECTORS
    random = np.random.default_rng(seed)
    places = random.permutation(vectors)[: blocks * LOADED_VECTORS].astype(np.int32)
    with ThreadPool(threads) as pool, loops(width) as code:
        measure = Measure(pool)

        def rate(per_step: float, work: list[tuple[Any, Any]]) -> float:
            return per_step * threads / measure.seconds_a_step(work)

        multiply = [(code.multiply, (buffer(2 * width),)) for _ in range(threads)]
        gather = [(code.gather, (buffer(vectors * width), places, blocks)) for _ in range(threads)]
        copies = [(_copy, (buffer(COPY_BYTES), buffer(COPY_BYTES))) for _ in range(threads)]
        gathers = rate(places.size * lanes, gather)
        multiply_adds = max(
            gathers, rate(MULTIPLY_ADDS * lanes, multiply)
        )  # a gather includes one, so it cannot be faster
        return MachinePeaks(rate(2 * COPY_BYTES, copies), multiply_adds, gathers)


def _copy(source: int, target: int, steps: int) -> None:
    """C's memmove, which releases Python's lock."""
    for _ in range(steps):
        ctypes.memmove(target, source, COPY_BYTES)
