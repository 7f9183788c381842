"""What planning knows of a device or a slice."""

from __future__ import annotations

import re
from typing import Any

from vkernels.ir.limits import Limits
from vkernels.ir.occupancy import NvidiaSizes

from .host_cpu import LAUNCH_SECONDS
from .target import CpuSizes, Target
from .throughput import GPU_LAUNCH, multiply_adds, path_bytes, shared_bytes, tensor_multiply_adds

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
        return Limits(register_bytes=sizes.register_bytes, launch_seconds=LAUNCH_SECONDS, **common)
    return Limits(
        register_bytes=GPU_REGISTER_BYTES,
        sizes=sizes,
        copies_ahead=_copies_ahead(target.architecture),
        dots_from_shared=isinstance(sizes, NvidiaSizes) and target.architecture in ("sm_90", "sm_100", "sm_103"),
        launch_seconds=GPU_LAUNCH,
        **common,
    )


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
    nvidia = re.fullmatch(r"sm_(\d+)", architecture)
    return int(nvidia[1]) >= 80 if nvidia else architecture == "gfx950"
