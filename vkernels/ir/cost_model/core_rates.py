"""Rates of one core of a CPU, from its limits."""

from __future__ import annotations

from dataclasses import dataclass

from ..limits import Limits


@dataclass(frozen=True)
class CoreRates:
    """Of one core, in cycles: `vectors`: operations on whole registers a cycle. Bytes a second, of all: the rest."""

    clock: float
    vectors: float
    level_2: float
    level_3: float
    memory: float


MOST_VECTORS = 4.0
"""Vector units of a core, at most."""


def cpu_rates(limits: Limits) -> CoreRates:
    """The rates of a CPU; where its limits have none (the defaults of `Limits`), those of a server core of 2022.

    Measured on AMD Zen 4 with 2 cores: 183 GFLOP/s (docs/measurements), which is one multiply-add a cycle on registers
    of 64 bytes; of 32 bytes or less two, as on most server cores. Level 2 and 3 by STREAM-like sums of 256
    KiB and 8 MiB a core; memory by layer normalisation of 100 MB, 29 to 36 GB/s on one core, a few more on two.
    """
    cores = limits.multiprocessors
    if limits.core is None and limits.clock <= 1e9:
        vectors = 1.0 if limits.register_bytes > 32 else 2.0
        return CoreRates(3.5e9, vectors, 130e9 * cores, 60e9 * cores, 20e9 + 10e9 * min(cores, 24))
    lanes = limits.register_bytes / 4
    vectors = limits.multiply_adds.get("float32", limits.clock * cores * lanes) / (limits.clock * cores * lanes)
    return CoreRates(
        limits.clock, min(MOST_VECTORS, max(0.25, vectors)), limits.shared_bandwidth, limits.cache_bandwidth,
        limits.memory_bandwidth,
    )  # fmt: skip
