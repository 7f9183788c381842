"""What planning knows of a device or a slice."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vkernels.ir.limits import Limits
from vkernels.ir.occupancy import NvidiaSizes

from .host_cpu import LAUNCH_SECONDS
from .processors import PROCESSORS
from .target import CpuSizes, Target

LEVEL_2_PATH = 64
"""Bytes a clock between the L2 and one multiprocessor. An estimate: both vendors' recent devices have about that."""

SHARED_PATH = 128
"""Bytes a clock of one multiprocessor's shared memory: 32 banks of four bytes."""

WIDE_SHARED = {"gfx950": 256}

GPU_LAUNCH = 4e-6
"""Seconds between two launches in one stream. An estimate, of a driver that is never idle."""


@dataclass(frozen=True)
class Ratios:
    """Rates beside float32's (`float64`, `int32`) and beside float16's on tensor cores (others); 0 where there is none.
    `int8` counts beside float16 accumulated in float16, where that is faster."""

    float64: float
    int32: float
    bfloat16: float = 1
    tf32: float = 0
    float8: float = 0
    int8: float = 0
    mxfp8: float = 0
    mxfp4: float = 0
    nvfp4: float = 0


NVIDIA: Mapping[str, Ratios] = {
    "sm_70": Ratios(1 / 2, 1, bfloat16=0),
    "sm_75": Ratios(1 / 32, 1, bfloat16=0, int8=2),
    "sm_80": Ratios(1 / 2, 1, tf32=1 / 2, int8=2),
    "sm_86": Ratios(1 / 64, 1 / 2, tf32=1 / 2, int8=2),
    "sm_87": Ratios(1 / 64, 1 / 2, tf32=1 / 2, int8=2),
    "sm_89": Ratios(1 / 64, 1 / 2, tf32=1 / 2, float8=2, int8=2),
    "sm_90": Ratios(1 / 2, 1 / 2, tf32=1 / 2, float8=2, int8=2),
    "sm_100": Ratios(1 / 2, 1 / 2, tf32=1 / 2, float8=2, int8=2, mxfp8=2, mxfp4=4, nvfp4=4),
    "sm_103": Ratios(1 / 64, 1 / 2, tf32=1 / 2, float8=2, int8=1 / 8, mxfp8=2, mxfp4=6, nvfp4=6),
    "sm_120": Ratios(1 / 64, 1 / 2, tf32=1 / 2, float8=2, int8=2, mxfp8=2, mxfp4=8, nvfp4=8),
}
NVIDIA_LATER = Ratios(1 / 64, 1 / 2, tf32=1 / 2, float8=2, int8=2)

AMD: Mapping[str, Ratios] = {
    "gfx90a": Ratios(1, 1 / 4, int8=1),
    "gfx942": Ratios(1 / 2, 1 / 4, tf32=1 / 2, float8=2, int8=2),
    "gfx950": Ratios(1 / 2, 1 / 4, float8=2, int8=2, mxfp8=2, mxfp4=4),
    "gfx10": Ratios(1 / 16, 1 / 4, bfloat16=0),
    "gfx11": Ratios(1 / 32, 1 / 4, int8=1),
    "gfx12": Ratios(1 / 64, 1 / 4, float8=2, int8=2),
}
AMD_OTHERS = Ratios(1 / 64, 1 / 4)

NO_TENSOR_CORES = ("gfx10",)
"""Their float16 rate is that of packed arithmetic on plain units."""


def multiply_adds(target: Target) -> dict[str, float]:
    """Multiply-adds a second by dtype, on plain units; empty where the table has no rates."""
    if target.rates is None:
        return {}
    float32 = target.rates.float32_tflops * 1e12 / 2
    ratios = Ratios(1 / 2, 1 / 2) if isinstance(target.sizes, CpuSizes) else ratios_of(target.architecture)
    int32 = float32 * ratios.int32
    return {"float32": float32, "float64": float32 * ratios.float64, "int32": int32, "int64": int32 / 4}


def tensor_multiply_adds(target: Target) -> dict[str, float]:
    """Multiply-adds a second by dtype, on tensor cores. Where only the rate of accumulating in float16 is known, half
    of it is taken, as on devices for desks."""
    rates = target.rates
    if rates is None or target.architecture.startswith(NO_TENSOR_CORES):
        return {}
    float16 = rates.float16_tflops or (rates.float16_in_float16_tflops or 0) / 2
    ratios = ratios_of(target.architecture)
    found = {
        "float16": float16,
        "bfloat16": float16 * ratios.bfloat16,
        "tf32": float16 * ratios.tf32,
        "float8": float16 * ratios.float8,
        "mxfp8": float16 * ratios.mxfp8,
        "mxfp4": float16 * ratios.mxfp4,
        "nvfp4": float16 * ratios.nvfp4,
        "int8": max(float16, rates.float16_in_float16_tflops or 0) * ratios.int8,
    }
    return {dtype: rate * 1e12 / 2 for dtype, rate in found.items() if rate}


def ratios_of(architecture: str) -> Ratios:
    """The ratios of an architecture; of one that is not known, those of devices for desks."""
    if architecture.startswith("sm_"):
        return NVIDIA.get(architecture, NVIDIA_LATER)
    known = (ratios for name, ratios in AMD.items() if architecture.startswith(name))
    return next(known, AMD_OTHERS)


def path_bytes(target: Target) -> float:
    """Bytes a second that all multiprocessors of a GPU can take from the L2."""
    clock = 1e6 * target.rates.clock_mhz if target.rates is not None else 1e9
    return target.multiprocessors * LEVEL_2_PATH * clock


def shared_bytes(target: Target) -> float:
    """Bytes a second of all multiprocessors' shared memory."""
    clock = 1e6 * target.rates.clock_mhz if target.rates is not None else 1e9
    return target.multiprocessors * WIDE_SHARED.get(target.architecture, SHARED_PATH) * clock


GPU_REGISTER_BYTES = 4


def limits_of(target: Target) -> Limits:
    """Sizes and rates of a device or slice. `registers` leaves out AMD's accumulators.

    A CPU that was not measured has the default rates; see `throughput` for rates that the table does not give.
    """
    sizes = target.sizes
    common: dict[str, Any] = {
        "registers": sizes.thread_registers, "shared": sizes.block_shared, "multiprocessors": target.multiprocessors,
        "cache": target.cache, "threads": sizes.block_threads, "warp": sizes.warp, "memory": target.memory,
        "tensor_memory": target.tensor_memory, **_rates(target),
    }  # fmt: skip
    if isinstance(sizes, CpuSizes):
        return Limits(
            register_bytes=sizes.register_bytes,
            core=target.core,
            dot_units=sizes.dot_units,
            launch_seconds=_launch(target, LAUNCH_SECONDS),
            processor=target.architecture if target.architecture in PROCESSORS else "",
            **common,
        )
    return Limits(
        register_bytes=GPU_REGISTER_BYTES,
        sizes=sizes,
        copies_ahead=_copies_ahead(target.architecture),
        dots_from_shared=isinstance(sizes, NvidiaSizes) and target.architecture in ("sm_90", "sm_100", "sm_103"),
        tensor_copies=_compute_capability(target.architecture) >= 90,
        launch_seconds=_launch(target, GPU_LAUNCH),
        **common,
    )


def _launch(target: Target, usual: float) -> float:
    given = None if target.rates is None else target.rates.launch_microseconds
    return usual if given is None else given / 1e6


def _rates(target: Target) -> dict[str, Any]:
    """The most that the slice reaches: of memory, no more than its multiprocessors can draw."""
    rates = target.rates
    if rates is None:
        return {}
    on_gpu = not isinstance(target.sizes, CpuSizes)
    path = path_bytes(target)
    drawn = rates.multiprocessor_gb_s * 1e9 * target.multiprocessors if rates.multiprocessor_gb_s else path
    found = {
        "clock": rates.clock_mhz * 1e6,
        "memory_bandwidth": min(rates.memory_gb_s * 1e9, drawn),
        "cache_bandwidth": min(rates.cache_gb_s * 1e9, path) if rates.cache_gb_s else path,
        "shared_bandwidth": rates.shared_gb_s * 1e9 if rates.shared_gb_s else shared_bytes(target),
        "multiply_adds": multiply_adds(target),
    }
    return {**found, "tensor_multiply_adds": tensor_multiply_adds(target)} if on_gpu else found


def _copies_ahead(architecture: str) -> bool:
    """Whether loads can go to shared memory past the registers: NVIDIA's since 8.0, CDNA 4."""
    return _compute_capability(architecture) >= 80 or architecture == "gfx950"


def _compute_capability(architecture: str) -> int:
    """Of NVIDIA's architectures, as in their names: 90 of sm_90; 0 of others."""
    nvidia = re.fullmatch(r"sm_(\d+)", architecture)
    return int(nvidia[1]) if nvidia else 0
