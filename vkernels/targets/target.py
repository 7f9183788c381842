"""A device model: its sizes, its rates, and the slices that it can be cut into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from vkernels.ir.core_costs import CoreCosts
from vkernels.ir.occupancy import AmdSizes, NvidiaSizes


@dataclass(frozen=True)
class CpuSizes:
    """A core: programs of one thread, vector registers, `block_shared` bytes of L2, `dot_units` by name."""

    block_shared: int
    thread_registers: int
    register_bytes: int
    warp: int = 1
    block_threads: int = 1
    dot_units: tuple[str, ...] = ()


@dataclass(frozen=True)
class PeakRates:
    """Peaks: MHz, GB/s (1e9 bytes, links one way), dense TFLOP/s; `None` where unknown.

    `float16_tflops`: of tensor cores accumulating in float32; `float16_in_float16_tflops`: accumulating in float16.
    `cache_gb_s`: of the last cache; `shared_gb_s`: of what a program's shared memory is (CPU: of a core's L2), of all
    multiprocessors together; `multiprocessor_gb_s`: the most that one of them draws from memory, and
    `multiprocessor_cache_gb_s` from the last cache. `launch_microseconds`: what a launch costs beside its work.
    """

    clock_mhz: float
    memory_gb_s: float
    float32_tflops: float
    float16_tflops: float | None = None
    float16_in_float16_tflops: float | None = None
    tensor_clock_mhz: float | None = None
    host_gb_s: float | None = None
    peer_gb_s: float | None = None
    cache_gb_s: float | None = None
    shared_gb_s: float | None = None
    multiprocessor_gb_s: float | None = None
    multiprocessor_cache_gb_s: float | None = None
    launch_microseconds: float | None = None


@dataclass(frozen=True)
class Slice:
    """A share of a device: a MIG profile, or a partition of an AMD package.

    `most`: how many such slices one device gives; `memory`: bytes that it can use; `memory_share`: of the memory's
    slices, and so of bandwidth; `cache_share`: of the L2; `places`: first memory slice and how many, for each place
    it can have. `None` where unknown, or where slices share it.
    """

    name: str
    kind: Literal["mig", "partition"]
    most: int
    multiprocessors: int | None = None
    memory: int | None = None
    memory_share: Fraction | None = None
    cache_share: Fraction | None = None
    places: tuple[tuple[int, int], ...] | None = None
    sources: tuple[str, ...] = ()


@dataclass(frozen=True)
class GreenContexts:
    """Multiprocessors of one green context: `least`, and any `multiple` beyond. Their groups on the chip may allow
    fewer contexts than this rule."""

    least: int
    multiple: int


@dataclass(frozen=True)
class Target:
    """One device, as a program that enumerates devices sees it. Sizes are in bytes.

    `key`: its name in tables and on the command line; on this machine `nvidia:0`, `amd:0`, `cpu`. `architecture`:
    `sm_90`, `gfx942`. `multiprocessors`: of RDNA, work-group processors. `level_2`: all of it, where each of the
    `chiplets` has its own part; `cache`: the last one before memory. `tensor_memory`: columns a multiprocessor.
    `integrated`: its memory is the host's.
    `sources`: where each field comes from, as names of the table's sources; `unverified`: fields to be checked before
    anything rests on them. `like`: the known device that it was made from. `rates` are `None` for a CPU in a user's
    table that gives none, and for no other. `core`: what instructions and memory cost a core of this machine's CPU.
    """

    key: str
    name: str
    vendor: Literal["nvidia", "amd", "cpu"]
    architecture: str
    multiprocessors: int
    memory: int
    level_2: int
    cache: int
    sizes: NvidiaSizes | AmdSizes | CpuSizes
    rates: PeakRates | None
    generation: str = ""
    chiplets: int = 1
    tensor_memory: int = 0
    green_contexts: GreenContexts | None = None
    slices: tuple[Slice, ...] = ()
    integrated: bool = False
    note: str = ""
    sources: Mapping[str, tuple[str, ...]] = field(default_factory=dict, hash=False)
    unverified: tuple[str, ...] = ()
    like: str | None = None
    core: CoreCosts | None = None

    @property
    def warp(self) -> int:
        return self.sizes.warp
