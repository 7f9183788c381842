"""How many programs run on one multiprocessor at once, and what keeps it from being more.

Arithmetic on the sizes of a multiprocessor, given as plain numbers: nothing here knows a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal, TypeAlias

Resource: TypeAlias = Literal["threads", "blocks", "registers", "shared", "barriers"]


@dataclass(frozen=True)
class NvidiaSizes:
    """A multiprocessor of NVIDIA's. Registers have 32 bits, memory is in bytes.

    `warp`: threads of one; `warps`, `blocks`, `barriers`: the most resident at once, where `barriers` is 0 if they
    limit nothing (before compute capability 9.0); `partitions`: parts that its warps and registers are divided over;
    `registers`, `shared`: all of them; `register_unit`: a warp takes a multiple of it; `shared_reserved`: the system's
    own for every block; `shared_unit`: a block takes a multiple of it.
    `block_threads`, `block_registers`, `block_shared`, `thread_registers`: the most that one may have; shared memory
    beyond `block_shared_unasked` must be asked for.
    """

    warp: int
    warps: int
    blocks: int
    barriers: int
    partitions: int
    registers: int
    register_unit: int
    shared: int
    shared_reserved: int
    shared_unit: int
    block_threads: int
    block_registers: int
    block_shared: int
    block_shared_unasked: int
    thread_registers: int


@dataclass(frozen=True)
class AmdSizes:
    """What schedules a work-group on AMD: a compute unit (CDNA) or a pair of them (RDNA's work-group processor).

    `warp`: threads of a wave; `partitions`: its SIMDs; `warps`: the most waves of *one SIMD*; `blocks`: the most
    work-groups of more than one wave, for want of barriers. `registers`: vector registers of one SIMD, of which a
    wave takes a multiple of `register_unit`; `unified`: accumulator registers come out of the same file. Scalar
    registers limit nothing where `scalar_registers`, those of one SIMD, is 0. `shared`: all its local memory, of
    which a work-group takes a multiple of `shared_unit`. `block_threads`, `block_shared`: the most that one may have;
    `thread_registers`: the most vector registers of a thread, accumulators apart.
    """

    warp: int
    warps: int
    blocks: int
    partitions: int
    registers: int
    register_unit: int
    unified: bool
    scalar_registers: int
    scalar_unit: int
    shared: int
    shared_unit: int
    block_threads: int
    block_shared: int
    thread_registers: int


@dataclass(frozen=True)
class BinaryUse:
    """What one program takes, as its binary says.

    `registers`: of a thread (AMD: vector registers; a code object's `.vgpr_count` has the accumulators in it, then
    leave `accumulators` 0). `shared`: bytes, static and dynamic. `barriers`: named ones, NVIDIA alone. `accumulators`,
    `scalars`: AMD's other registers, a thread and a wave. Raises `ValueError` where a number makes no sense.
    """

    threads: int
    registers: int
    shared: int = 0
    barriers: int = 1
    accumulators: int = 0
    scalars: int = 0

    def __post_init__(self) -> None:
        least = min(self.registers, self.shared, self.barriers, self.accumulators, self.scalars)
        if self.threads < 1 or least < 0:
            raise ValueError(f"a program cannot take {self}")


@dataclass(frozen=True)
class Occupancy:
    """Programs that one multiprocessor holds: `blocks` of `warps_a_block` warps; 0 where not even one fits.

    `bounds`: how many each resource alone would allow, those without a bound left out; `limited_by`: the resources
    that allow no more than `blocks`.
    """

    blocks: int
    warps_a_block: int
    bounds: Mapping[Resource, int] = field(hash=False)

    @property
    def limited_by(self) -> tuple[Resource, ...]:
        return tuple(resource for resource, bound in self.bounds.items() if bound == self.blocks)

    @property
    def warps(self) -> int:
        return self.blocks * self.warps_a_block


def occupancy(sizes: NvidiaSizes | AmdSizes, use: BinaryUse) -> Occupancy:
    """Programs that fit on one multiprocessor at once (RDNA: on a work-group processor)."""
    return _nvidia(sizes, use) if isinstance(sizes, NvidiaSizes) else _amd(sizes, use)


def taken_parts(sizes: NvidiaSizes | AmdSizes, use: BinaryUse) -> dict[Resource, Fraction]:
    """What one program takes of a multiprocessor, as parts of each resource that bounds how many it holds.

    It holds programs of several kernels at once while no resource's parts add up to more than 1; of one kernel, as many
    as `occupancy` says. The program is one that fits by itself.
    """
    warps = _units(use.threads, sizes.warp)
    if isinstance(sizes, AmdSizes):
        return _taken_of_amd(sizes, use, warps)
    found: dict[Resource, Fraction] = {"threads": Fraction(warps, sizes.warps), "blocks": Fraction(1, sizes.blocks)}
    if use.registers:
        held = sizes.registers // sizes.partitions // _nvidia_registers_a_warp(sizes, use.registers) * sizes.partitions
        found["registers"] = Fraction(warps, held)
    if shared := _rounded(use.shared + sizes.shared_reserved, sizes.shared_unit):
        found["shared"] = Fraction(shared, sizes.shared)
    if use.barriers and sizes.barriers:
        found["barriers"] = Fraction(use.barriers, sizes.barriers)
    return found


def _taken_of_amd(sizes: AmdSizes, use: BinaryUse, warps: int) -> dict[Resource, Fraction]:
    found: dict[Resource, Fraction] = {"threads": Fraction(warps, sizes.warps * sizes.partitions)}
    if warps > 1:
        found["blocks"] = Fraction(1, sizes.blocks)
    if (waves := _amd_waves_by_registers(sizes, use)) is not None:
        found["registers"] = Fraction(warps, waves * sizes.partitions)
    if use.shared:
        found["shared"] = Fraction(_rounded(use.shared, sizes.shared_unit), sizes.shared)
    return found


def _nvidia(sizes: NvidiaSizes, use: BinaryUse) -> Occupancy:
    """As NVIDIA's calculator counts (`cuda_occupancy.h` of CUDA 13.0), with shared memory carved out as asked."""
    warps = _units(use.threads, sizes.warp)
    bounds: dict[Resource, int] = {
        "threads": sizes.warps // warps if use.threads <= sizes.block_threads else 0,
        "blocks": sizes.blocks,
    }
    if use.registers:
        bounds["registers"] = _nvidia_by_registers(sizes, use.registers, warps)
    shared = _rounded(use.shared + sizes.shared_reserved, sizes.shared_unit)
    if shared:
        bounds["shared"] = sizes.shared // shared if use.shared <= sizes.block_shared else 0
    if use.barriers and sizes.barriers:
        bounds["barriers"] = sizes.barriers // use.barriers
    return Occupancy(min(bounds.values()), warps, bounds)


def _nvidia_by_registers(sizes: NvidiaSizes, registers: int, warps: int) -> int:
    """Each partition holds whole warps; a block is refused by the registers of its warps dealt evenly to them."""
    a_warp = _nvidia_registers_a_warp(sizes, registers)
    dealt = a_warp * _rounded(warps, sizes.partitions)
    if registers > sizes.thread_registers or dealt > sizes.block_registers:
        return 0
    return sizes.registers // sizes.partitions // a_warp * sizes.partitions // warps


def _nvidia_registers_a_warp(sizes: NvidiaSizes, registers: int) -> int:
    return _rounded(registers * sizes.warp, sizes.register_unit)


def _amd(sizes: AmdSizes, use: BinaryUse) -> Occupancy:
    """By whole work-groups: all waves of one are resident together, on any of the SIMDs.

    Waves of a SIMD by registers and work-groups for want of barriers as LLVM's AMDGPU back end counts them
    (`AMDGPUBaseInfo.cpp`: `getTotalNumVGPRs`, `getNumWavesPerEUWithNumVGPRs`, `getMaxWorkGroupsPerCU`); whole
    work-groups of those waves as HIP's `hipOccupancyMaxActiveBlocksPerMultiprocessor`.
    """
    warps = _units(use.threads, sizes.warp)
    fits = use.threads <= sizes.block_threads
    bounds: dict[Resource, int] = {"threads": sizes.warps * sizes.partitions // warps if fits else 0}
    if warps > 1:
        bounds["blocks"] = sizes.blocks
    if (waves := _amd_waves_by_registers(sizes, use)) is not None:
        bounds["registers"] = waves * sizes.partitions // warps
    if use.shared:
        shared = _rounded(use.shared, sizes.shared_unit)
        bounds["shared"] = sizes.shared // shared if use.shared <= sizes.block_shared else 0
    return Occupancy(min(bounds.values()), warps, bounds)


def _amd_waves_by_registers(sizes: AmdSizes, use: BinaryUse) -> int | None:
    """Waves that the registers of one SIMD hold; None if the program uses no registers that count."""
    vectors = unified_registers(use.registers, use.accumulators) if sizes.unified else use.registers
    most = sizes.thread_registers * (2 if sizes.unified else 1)
    waves = []
    if vectors:
        waves.append(sizes.registers // _rounded(vectors, sizes.register_unit) if vectors <= most else 0)
    if use.scalars and sizes.scalar_registers:
        waves.append(sizes.scalar_registers // _rounded(use.scalars, sizes.scalar_unit))
    return min(waves, default=None)


def unified_registers(vectors: int, accumulators: int) -> int:
    """Registers that a thread takes of a file shared by both kinds: accumulators start at a multiple of four."""
    return _rounded(vectors, 4) + accumulators if accumulators else vectors


def _units(amount: int, unit: int) -> int:
    return -(-amount // unit)


def _rounded(amount: int, unit: int) -> int:
    return _units(amount, unit) * unit
