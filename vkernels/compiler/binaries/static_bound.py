"""A lower bound of a kernel's time on a device, from its binary: no unit can be faster than what the loops ask of it.

It is no prediction. Accesses are taken to hit the last cache and to be without bank conflicts, programs to be spread
evenly, and units to overlap perfectly. What a plan or a configuration loses by its loops shows in it; what it loses by
waiting for memory does not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vkernels.ir.limits import Limits

from .instructions import Kind
from .loop_use import LoopUse
from .pipes import Pipes, pipes_of, tensor_rate
from .read_code import KernelCode

TENSOR, ISSUE, MEMORY, LATENCY, CACHE, DEVICE_MEMORY = (
    "tensor cores", "issue", "shared memory", "latency", "cache", "memory",
)  # fmt: skip

_DATA = (
    Kind.SHARED_LOAD, Kind.SHARED_STORE, Kind.GLOBAL_LOAD, Kind.GLOBAL_STORE, Kind.COPY, Kind.SPILL_LOAD,
    Kind.SPILL_STORE, Kind.ATOMIC,
)  # fmt: skip
ACCESS_LANES = 32
"""Threads a clock whose accesses the load/store units take."""


@dataclass(frozen=True)
class LaunchWork:
    """What a launch does besides its code. `programs`: of its grid. `resident`: that one multiprocessor holds at once.

    `cache_bytes`: that all programs move to and from the last cache; `memory_bytes`: that must come from device
    memory or go there; `multiply_adds`: of a program's dots, by its source; 0 where unknown.
    """

    programs: int
    resident: int
    cache_bytes: float = 0.0
    memory_bytes: float = 0.0
    multiply_adds: float = 0.0


@dataclass(frozen=True)
class StaticBound:
    """The bound in seconds, and the seconds of each part, which overlap. `waves`: of programs.

    `tensor_seconds`: of the tensor cores at their whole rate, 0 without them.
    """

    seconds: float
    parts: Mapping[str, float]
    waves: int
    tensor_seconds: float

    @property
    def bottleneck(self) -> str:
        """The longest part."""
        return max(self.parts, key=lambda name: self.parts[name])


def loop_cycles(region: LoopUse, code: KernelCode, limits: Limits, copied: float = 0.0) -> dict[str, float]:
    """Cycles of one multiprocessor for a trip of one program, by unit; `latency`: of one warp. `copied`: bytes that
    copies of boxes move to or from shared memory, which no thread's access shows (`copied_bytes`)."""
    pipes = pipes_of(code.architecture, limits)
    warps, threads = region.warps or code.warps, code.threads
    found = {
        ISSUE: (region.instructions * warps + region.elected) / pipes.issue,
        TENSOR: sum(
            each.multiply_adds(warps) / rate
            for each in region.tensor
            if (rate := tensor_rate(each.shape, code.architecture, limits))
        ),
        MEMORY: _memory(region, code, pipes) + copied / pipes.memory_bytes,
        LATENCY: float(region.latency),
    }
    for pipe in pipes.units:
        cycles = sum(region.count(kind) * warps * threads / lanes for kind, lanes in pipe.lanes.items())
        if cycles:
            found[pipe.name] = cycles
    return found


def _memory(region: LoopUse, code: KernelCode, pipes: Pipes) -> float:
    warps, threads = region.warps or code.warps, code.threads
    bytes_ = {kind: float(region.bytes.get(kind.value, 0)) for kind in _DATA}
    if not region.tensor:
        bytes_[Kind.SHARED_LOAD] *= code.distinct
    moved = sum(bytes_.values()) * threads * warps
    operands = sum(each.operand_bytes * each.instructions(warps) for each in region.tensor)
    accesses = region.count(*_DATA) * threads * warps / ACCESS_LANES
    return max(moved / pipes.memory_bytes, accesses) + operands / pipes.memory_bytes


def static_bound(
    code: KernelCode,
    trips: Sequence[float | None],
    work: LaunchWork,
    limits: Limits,
    copied: Sequence[float] = (),
    versions: Sequence[float] = (),
) -> StaticBound | None:
    """The bound for a launch; None where nothing says how often a region runs. `trips`: of each region in one program.
    `copied`: as in `loop_cycles`, of each region, if there are such copies. `versions`: how often a program runs each
    of the code's versions; once without.

    Tensor cores need as long as the source's dots ask for, however few of their instructions were found in loops.
    """
    known = [each for each in trips if each is not None]
    if len(known) < len(trips):
        return None
    cycles: dict[str, float] = {}
    waiting: dict[int, float] = {}
    for region, often, moved in zip(code.regions, known, copied or [0.0] * len(known), strict=True):
        for name, one in loop_cycles(region, code, limits, moved).items():
            cycles[name] = cycles.get(name, 0.0) + one * often
            if name == LATENCY:
                waiting[region.role] = waiting.get(region.role, 0.0) + one * often
    for region, often in zip(code.versions, versions, strict=False):
        for name, one in loop_cycles(region, code, limits).items():
            cycles[name] = max(0.0, cycles[name] - one * (1.0 - often))
        waiting[0] = max(0.0, waiting[0] - region.latency * (1.0 - often))
    shapes = (each.shape for region in code.regions for each in region.tensor)
    if fastest := max((tensor_rate(shape, code.architecture, limits) for shape in shapes), default=0.0):
        cycles[TENSOR] = max(cycles[TENSOR], work.multiply_adds / fastest)
    # Roles run side by side, between code that is theirs together.
    cycles[LATENCY] = waiting.pop(0, 0.0) + max(waiting.values(), default=0.0)
    cores, resident = limits.multiprocessors, max(1, work.resident)
    most = -(-work.programs // cores)
    waves = -(-work.programs // (cores * resident))
    parts = {name: each * (waves if name == LATENCY else most) / limits.clock for name, each in cycles.items()}
    if work.cache_bytes:
        parts[CACHE] = work.cache_bytes / limits.cache_bandwidth
    if work.memory_bytes:
        parts[DEVICE_MEMORY] = work.memory_bytes / limits.memory_bandwidth
    tensor = cycles.get(TENSOR, 0.0) * work.programs / cores / limits.clock
    return StaticBound(max(parts.values()), parts, waves, tensor)
