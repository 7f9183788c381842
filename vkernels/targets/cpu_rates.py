"""Rates of this machine's CPU: as measured and kept on disk, else those of its family."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace

from vkernels.ir.core_costs import CoreCosts
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.dot_units import DOT_UNITS
from vkernels.ir.limits import Limits

from .family_rates import FamilyRates, family_of, memory_of, multiply_adds_of
from .host_cpu import LAUNCH_SECONDS, WAKE_SECONDS, cache_bytes, cpu_limits, way_bytes
from .processor import this_processor

VERSION = 14
"""Grows when the method or the format changes: rates of older versions are measured again."""

OF_ACCESSES = (
    "own", "gradual", "apart", "store_apart", "apart_narrow", "store_apart_narrow", "apart_alone", "found", "index",
    "masked", "across", "atomic", "atomic_far", "update", "update_far", "hop", "line_3", "line", "lost_3", "lost",
    "streams", "pages", "fetched_store", "begun_3", "begun",
)  # fmt: skip
"""Costs of accesses that `CoreCosts` has by the same names."""
OF_MATRICES = ("matrix_row", "matrix_latency", "settled", "given_back", "staged", "chunked", "passed", "reshaped")
"""Costs of matrix units by the same names, of the processor's family where it has none."""
OF_INSTRUCTIONS = (
    "contended", "way", "buffered", "crossed", "doubled", "carried", "divided", "mispredicted",
    "widened", "shuffled", "packed", "packed_turned", "worded", *OF_MATRICES,
)  # fmt: skip
"""Costs of instructions by the same names, and what else is found beside them: `way` is the system's, `buffered` the
family's."""
OF_A_CORE = (
    "loads", "stores", "latency", "stored_2", "stored_3", "stored", "past_3", "past", "past_3_alone", "past_alone",
    "past_store", "past_straight", "waited_3", "waited", "cache_share", *OF_ACCESSES, *OF_INSTRUCTIONS,
)  # fmt: skip
"""Rates that `CoreCosts` has by the same names."""

RATE = (1e6, 1e18)
A_CYCLE = (0.125, 8.0)
RANGES: Mapping[str, tuple[float, float]] = {
    "clock": (1e8, 2e10), "memory": RATE, "core_memory": RATE, "cache": RATE, "core_cache": RATE, "shared": RATE,
    "multiply_adds": RATE, "register_bytes": (16, 64), "loads": A_CYCLE, "stores": A_CYCLE, "latency": (1.0, 32.0),
    **dict.fromkeys(("stored_2", "stored_3", "stored", "past_3", "past", "past_3_alone", "past_alone"), (0.0, 16.0)),
    **dict.fromkeys(("past_store", "past_straight"), (0.0, 100.0)), "waited_3": (0.0, 4.0), "waited": (0.0, 4.0),
    "cache_share": (1e-6, 1.0), "launch": (1e-7, 1e-2), "wake": (1e-6, 1e-2),
    **dict.fromkeys(OF_ACCESSES, (0.0, 1000.0)), "apart_alone": (0.0, 1.0), "pages": (64.0, 1e9),
    "streams": (1.0, 32.0), "own": (0.05, 2.0), "gradual": (0.01, 1.0),
    **dict.fromkeys(("begun_3", "begun"), (0.0, 1e5)), **dict.fromkeys(OF_INSTRUCTIONS, (0.0, 1000.0)),
    "way": (4096.0, 1.7e7), "buffered": (1.0, 1e4),
}  # fmt: skip
"""What each rate can be: one beyond was not measured, but damaged."""


@dataclass(frozen=True)
class CpuRates:
    """Rates of a CPU. `clock`: Hz. Bytes a second read: `memory` by all cores together and `core_memory` by one,
    `cache` by all and `core_cache` by one, `shared` (the L2) by all. `multiply_adds`: of float32, a second, by all
    cores, on vectors of `register_bytes`: as wide as the registers, or half as wide where that is faster.
    `launch`: seconds of handing a launch to threads that wait for one, `wake`: to threads that sleep. All others: as in
    `CoreCosts`, of registers of `register_bytes`.
    """

    clock: float
    memory: float
    core_memory: float
    cache: float
    core_cache: float
    shared: float
    multiply_adds: float
    register_bytes: int
    loads: float
    stores: float
    latency: float
    stored_2: float
    stored_3: float
    stored: float
    past_3: float
    past: float
    past_3_alone: float
    past_alone: float
    past_store: float
    past_straight: float
    waited_3: float
    waited: float
    cache_share: float
    own: float
    gradual: float
    apart: float
    store_apart: float
    apart_narrow: float
    store_apart_narrow: float
    apart_alone: float
    found: float
    index: float
    masked: float
    across: float
    atomic: float
    atomic_far: float
    update: float
    update_far: float
    hop: float
    line_3: float
    line: float
    lost_3: float
    lost: float
    streams: float
    pages: float
    fetched_store: float
    begun_3: float
    begun: float
    contended: float
    way: float
    buffered: float
    crossed: float
    doubled: float
    carried: float
    divided: float
    mispredicted: float
    widened: float
    shuffled: float
    packed: float
    packed_turned: float
    worded: float
    matrix_row: float
    matrix_latency: float
    settled: float
    given_back: float
    staged: float
    chunked: float
    passed: float
    reshaped: float
    launch: float
    wake: float

    def core_costs(self, level_1: int) -> CoreCosts:
        """What one core costs, with so many bytes of level 1; 0 where that is unknown."""
        own = {name: getattr(self, name) for name in OF_A_CORE}
        return CoreCosts(level_1=level_1 or CoreCosts.level_1, memory=self.core_memory, **own)


def known_cpu_rates(cache: DiskCache | None = None) -> CpuRates | None:
    """The rates that were measured on this processor, with the cores that this process may use; None if none were.

    Measures nothing. A damaged entry counts as none. `cache`: this user's unless given. This user's are read once: a
    process plans by the same rates from its first call to its last.
    """
    return _users(_key()) if cache is None else _read(cache, _key())


def store_cpu_rates(rates: CpuRates, cache: DiskCache | None = None) -> bool:
    """Keep rates for later processes, and for this one. Returns whether they are stored."""
    stored = (cache or DiskCache()).put(_key(), json.dumps(asdict(rates)).encode())
    _users.cache_clear()
    return stored


def family_cpu_rates() -> CpuRates:
    """The rates of this processor's family, with the cores that this process may use; nothing is measured."""
    limits = cpu_limits()
    has_tiles = any(DOT_UNITS[name].is_matrix for name in limits.dot_units)
    found = rates_of_family(family_of(this_processor(), limits.register_bytes, has_tiles), limits)
    return replace(found, way=way_bytes(2) or found.way)


def rates_of_family(family: FamilyRates, limits: Limits) -> CpuRates:
    """The rates of a family's CPU with the cores and the vector registers of some limits."""
    cores, core = limits.multiprocessors, family.core(limits.register_bytes)
    level_2, level_3 = family.level_2 * family.clock, family.level_3 * family.clock
    return CpuRates(
        clock=family.clock, memory=memory_of(family, limits), core_memory=core.memory, cache=level_3 * cores,
        core_cache=level_3, shared=level_2 * cores, multiply_adds=multiply_adds_of(family, limits),
        register_bytes=limits.register_bytes, launch=LAUNCH_SECONDS, wake=WAKE_SECONDS,
        **{name: getattr(core, name) for name in OF_A_CORE},
    )  # fmt: skip


def host_level_1() -> int:
    """Bytes of a core's nearest cache; 0 where unknown."""
    return cache_bytes(1, shared_out=True)


def vector_bytes() -> int:
    """Bytes of the vectors that this CPU computes with: its registers', or half as many where that was measured to be
    faster."""
    found, widest = known_cpu_rates(), cpu_limits().register_bytes
    return widest if found is None else min(widest, found.register_bytes)


def in_ranges(rates: CpuRates) -> CpuRates:
    """The rates with those beyond their ranges at the ends of these."""
    values = {name: min(max(getattr(rates, name), low), high) for name, (low, high) in RANGES.items()}
    return CpuRates(**values)


@functools.cache
def _users(key: str) -> CpuRates | None:
    """The rates in this user's cache, read once."""
    return _read(DiskCache(warns=False), key)


@functools.cache
def _key() -> str:
    """The key of the rates: a hash of the processor and its microcode, and of the part that this process may use."""
    limits, processor = cpu_limits(), this_processor()
    sizes = (limits.multiprocessors, limits.registers, limits.register_bytes, limits.shared, limits.cache)
    parts = ["cpu rates", VERSION, *(getattr(processor, each.name) for each in fields(processor)), *sizes]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read(cache: DiskCache, key: str) -> CpuRates | None:
    import msgspec

    try:
        rates = msgspec.json.decode(cache.get(key) or b"", type=CpuRates)
    except (ValueError, RecursionError):
        return None
    return rates if rates.register_bytes in (16, 32, 64) and rates == in_ranges(rates) else None
