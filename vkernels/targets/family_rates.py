"""Rates of a CPU that was not measured, by its family.

Figures a core and cycle are from the makers' documents; what they do not say is as for all. Clocks are round figures.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from vkernels.ir.core_costs import CoreCosts, default_core_costs
from vkernels.ir.limits import Limits

from .processor import Processor

CLOCK = 3.5e9
MOST_DRAWING = 24
"""Cores that draw more from memory than fewer would."""


@dataclass(frozen=True)
class FamilyRates:
    """Of one core. Bytes a cycle from level 2 and level 3; whole registers a cycle that are multiplied and added; None
    where the width of registers decides. `costs`: others than usual, as in `CoreCosts`."""

    level_2: float = 37.0
    level_3: float = 17.0
    vectors: float | None = None
    clock: float = CLOCK
    costs: Mapping[str, float] = field(default_factory=dict)

    def core(self, register_bytes: int) -> CoreCosts:
        """The costs of a core with such registers."""
        return replace(default_core_costs(register_bytes), **self.costs)


@dataclass(frozen=True)
class Row:
    """A family: which processors belong to it, with vector registers of so many bytes, and where its rates are from.
    `has_tiles`: only those with a matrix unit."""

    holds: Callable[[Processor, int], bool]
    rates: FamilyRates
    source: str
    has_tiles: bool = False


OTHERS = FamilyRates()
"""Measured on AMD Zen 4 with 2 cores: 183 GFLOP/s, which is one multiply-add a cycle on registers of 64 bytes; of 32
bytes or less two, as on most server cores. Level 2 and 3 by STREAM-like sums of 256 KiB and 8 MiB a core."""

_WIDE_LOADS = {
    "loads": 2, "stores": 1, "apart": 1, "store_apart": 2, "found": 1.75, "index": 1.25, "across": 1.5,
    "doubled": 1.75, "widened": 1.25, "shuffled": 1, "staged": 1.5, "apart_narrow": 1, "store_apart_narrow": 2,
}  # fmt: skip
"""Of cores that load two of the widest registers in a cycle."""

_ZEN_5 = {
    "memory": 45e9, "stored_2": 1, "stored_3": 1.3, "stored": 1.05, "past_3": 3.6, "past": 0.6, "past_3_alone": 1.4,
    "past_alone": 0.6, "past_store": 0, "past_straight": 1.25, "waited_3": 0, "waited": 0.4, "cache_share": 0.5,
    "own": 1.1, "gradual": 0.3, "apart": 0.8, "store_apart": 1.1, "apart_narrow": 0.45, "store_apart_narrow": 0.5,
    "apart_alone": 0.85, "found": 0.8, "index": 0.1, "masked": 0, "across": 1.8, "atomic": 20, "atomic_far": 0,
    "update": 1, "update_far": 1.3, "hop": 13, "line_3": 0.28, "line": 8.5, "lost_3": 0.1, "lost": 0.21, "streams": 4,
    "pages": 4096, "fetched_store": 31, "begun_3": 24, "begun": 190, "contended": 95, "buffered": 104, "doubled": 2.1,
    "carried": 10, "divided": 6, "mispredicted": 24, "widened": 0.05, "shuffled": 0.65, "packed": 0.06,
    "packed_turned": 0, "worded": 0.2,
}  # fmt: skip
"""As calibration measures them on a server core of 2024. Of level 3 half: that machine had all of it for itself."""

_INTEL = {**_WIDE_LOADS, "fetched_store": 40, "buffered": 56}
_WITH_TILES = {
    **_INTEL, "buffered": 112, "carried": 7, "divided": 6, "mispredicted": 21, "widened": 1, "packed": 0.1,
    "packed_turned": 0, "worded": 0.8, "matrix_latency": 17, "settled": 110, "given_back": 1.5, "staged": 1.4,
    "reshaped": 170,
}  # fmt: skip
"""Instructions as calibration measures them on a server core of 2024."""

FAMILIES = (
    Row(
        lambda cpu, width: cpu.vendor == "GenuineIntel" and width == 64,
        FamilyRates(level_2=52, level_3=15, vectors=2, clock=3e9, costs=_WITH_TILES),
        "Intel 64 and IA-32 Architectures Optimization Reference Manual: Golden Cove, 112 stores. "
        "Instructions: measured",
        has_tiles=True,
    ),
    Row(
        lambda cpu, width: cpu.vendor == "GenuineIntel" and width == 64,
        FamilyRates(level_2=52, level_3=15, vectors=2, clock=3e9, costs=_INTEL),
        "Intel 64 and IA-32 Architectures Optimization Reference Manual: Skylake Server, sustained. "
        "fetched_store: measured on a core of 2023",
    ),
    Row(
        lambda cpu, width: cpu.vendor == "AuthenticAMD" and cpu.family == "26" and width == 64,
        FamilyRates(level_2=60, level_3=28, vectors=2, clock=4e9, costs={**_WIDE_LOADS, **_ZEN_5}),
        "Software Optimization Guide for the AMD Zen5 Microarchitecture (58455): data paths of 512 bits. Caches, "
        "accesses and instructions: measured",
    ),
    Row(
        lambda cpu, width: cpu.vendor == "0x41" and cpu.model in ("0xd4f", "0xd83", "0xd84"),
        FamilyRates(vectors=4, clock=3e9),
        "LLVM's model of Arm Neoverse V2 and V3: four vector pipelines",
    ),
)


def family_of(processor: Processor, register_bytes: int, has_tiles: bool = False) -> FamilyRates:
    """The rates of a processor's family, or those of all others. `has_tiles`: whether it has a matrix unit."""
    known = (row.rates for row in FAMILIES if row.holds(processor, register_bytes) and has_tiles >= row.has_tiles)
    return next(known, OTHERS)


def multiply_adds_of(family: FamilyRates, limits: Limits) -> float:
    """Multiply-adds of float32 a second, of all cores together."""
    vectors = family.vectors or (1.0 if limits.register_bytes > 32 else 2.0)
    return vectors * family.clock * limits.multiprocessors * limits.register_bytes / 4


def memory_of(family: FamilyRates, limits: Limits) -> float:
    """Bytes a second that all cores together read from memory: those of one, and less for each more."""
    return max(family.core(limits.register_bytes).memory, 20e9 + 10e9 * min(limits.multiprocessors, MOST_DRAWING))
