"""Measured rates of this machine's CPU, as they are kept on disk. `vkernels.compiler.calibrate_cpu` measures them."""

from __future__ import annotations

import functools
import hashlib
import json
import math
import platform
from dataclasses import asdict, dataclass, fields

from vkernels.ir.disk_cache import DiskCache

from .host_cpu import cpu_limits

VERSION = 3
"""Grows when the method or the format changes: rates of older versions are measured again."""

MAX_RATE = 1e18


@dataclass(frozen=True)
class MeasuredCpuRates:
    """Measured rates. `clock`: Hz. Bytes a second read: `memory` by all cores together and `core_memory` by one,
    `cache` and `shared` (the L2) by all. `multiply_adds`: of float32, a second, by all cores."""

    clock: float
    memory: float
    core_memory: float
    cache: float
    shared: float
    multiply_adds: float


def known_cpu_rates(cache: DiskCache | None = None) -> MeasuredCpuRates | None:
    """The rates that were measured on this machine, with the cores that this process may use; None if none were.

    Measures nothing. A damaged entry counts as none. `cache`: this user's unless given.
    """
    return _users(_key()) if cache is None else _read(cache, _key())


def store_cpu_rates(rates: MeasuredCpuRates, cache: DiskCache | None = None) -> None:
    """Keep rates for later processes, and for this one."""
    (cache or DiskCache()).put(_key(), json.dumps(asdict(rates)).encode())
    _users.cache_clear()


@functools.cache
def _users(key: str) -> MeasuredCpuRates | None:
    """The rates in this user's cache, read once."""
    return _read(DiskCache(), key)


@functools.cache
def _key() -> str:
    """The key of the rates: a hash of the CPU, and of the part of it that this process may use."""
    import llvmlite.binding as llvm

    limits = cpu_limits()
    sizes = (limits.multiprocessors, limits.registers, limits.register_bytes, limits.shared, limits.cache)
    parts = ["cpu rates", VERSION, platform.node(), platform.machine(), llvm.get_host_cpu_name(), *sizes]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _read(cache: DiskCache, key: str) -> MeasuredCpuRates | None:
    data = cache.get(key)
    try:
        values = None if data is None else json.loads(data)
    except (ValueError, RecursionError):
        return None
    names = {field.name for field in fields(MeasuredCpuRates)}
    if not isinstance(values, dict) or values.keys() != names:
        return None
    if not all(type(value) is float and math.isfinite(value) and 0 < value < MAX_RATE for value in values.values()):
        return None
    return MeasuredCpuRates(**values)
