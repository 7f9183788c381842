"""The costs of memory accesses on a device that was not measured, from the table of targets and published measurements.

Figures without a known publication are round guesses, which `unverified` lists.
"""

from __future__ import annotations

from vkernels.ir.errors import OptionError
from vkernels.targets import Target
from vkernels.targets.limits import GPU_LAUNCH

from ..calibration import AccessCosts, AccessRates, Calibration, Managed, Origin
from ..links import ANY_SIZE, G10, MemoryMachine

NVBANDWIDTH = "NVIDIA's blog post on NVbandwidth: 55.63 of PCIe 5.0 x16's 63 GB/s by the copy engine"
BY_KERNELS = "NVIDIA/nvbandwidth issue 24, H100: kernels read the host at 35.2 GB/s and write it at 52.8 of 63 GB/s"
FAULTS = "parallelArchitect/pascal-um-benchmark, GTX 1080: 31774 faults and 3.17 GB in 386.6 ms over PCIe 3.0 x16"
XAVIER = "bandwidthTest of an AGX Xavier (README of a fork of jetson-containers): 15.6 and 28.9 GB/s, memory of 136.5"
READ_BY_ORIN = "infinigence/ApxInf pull request 74: kernels read 152.8 of 204.8 GB/s (AGX Orin), 257 of 273 (Thor)"
UNCACHED = "CUDA C++ Best Practices Guide and CUDA for Tegra: a GPU does not cache mapped pinned memory"

COPIED, READ, WRITTEN = 55.63 / 63, 35.2 / 63, 52.8 / 63
"""Parts of a link's bandwidth: of copies, and of kernels that read and write the host's memory."""
COPIED_IN_MEMORY = {"to_device": 15.6 / 136.5, "to_host": 28.9 / 136.5}
"""Part of an integrated device's memory bandwidth that copies within it reach."""
OF_MEMORY = {"sm_87": 152.8 / 204.8, "sm_110": 257 / 273}
"""Part of the memory's bandwidth that kernels reach, by architecture."""
USUAL_OF_MEMORY = 0.9
SCATTERED = 0.4
"""Rate of 32-byte requests over a link, relative to sequential accesses. A guess."""
FAULT_BYTES = 96 << 10
FAULT_SECONDS = 386.6e-3 / 31774 - 3.17e9 / 31774 / 13.1e9
"""Without the fault's bytes at 13.1 GB/s, the rate of copies over such a link."""
FIRST_SECONDS = G10.fault_seconds
"""Latency of a single fault: G10's default (MICRO 2023)."""
MAPPED_PAGE, MAPPING_SECONDS = 64 << 10, 2e-6
"""Managed memory on an integrated device: nothing moves, but caches are flushed. A guess."""
COPY_SECONDS, PREFETCH_SECONDS = 10e-6, 10e-6
HOST = 20e9
"""Bytes a second of a CPU's accesses. A guess."""
USUAL_LINK = 31.5
"""GB/s of PCIe 4.0 x16, if the table has no link."""
GUESSED = (
    "copy_seconds",
    "launch_seconds",
    "mapped.scattered_read",
    "mapped.scattered_write",
    "host",
    "pinned_by_host",
)


def modelled(target: Target) -> Calibration:
    """Return the calibration of an absent GPU. Raises `OptionError` for a CPU, which has only one memory."""
    if target.rates is None or target.vendor == "cpu":
        raise OptionError(f"{target.key}: a CPU has one memory: there is nothing to place")
    return _integrated(target) if target.integrated else _discrete(target)


def _discrete(target: Target) -> Calibration:
    assert target.rates is not None
    link, memory = (target.rates.host_gb_s or USUAL_LINK) * 1e9, target.rates.memory_gb_s * 1e9 * USUAL_OF_MEMORY
    copied = COPIED * link
    access = AccessCosts(
        integrated=False, to_device=copied, to_host=copied, copy_seconds=COPY_SECONDS,
        device=AccessRates(memory, memory, memory, memory),
        mapped=AccessRates(READ * link, WRITTEN * link, SCATTERED * READ * link, SCATTERED * WRITTEN * link),
        is_cached=False, host=HOST, pinned_by_host=HOST, launch_seconds=GPU_LAUNCH,
        managed=Managed(FAULT_SECONDS, FAULT_BYTES, copied, copied, copied, PREFETCH_SECONDS, FIRST_SECONDS),
    )  # fmt: skip
    guessed = (*GUESSED, "managed.prefetch_seconds", *(() if target.rates.host_gb_s else ("to_device", "to_host")))
    sources = {
        "to_device": NVBANDWIDTH, "to_host": NVBANDWIDTH, "mapped": BY_KERNELS, "is_cached": UNCACHED,
        "managed": FAULTS,
    }  # fmt: skip
    return Calibration(target.key, target.name, Origin.MODELLED, _machine(access), access, guessed, sources)


def _integrated(target: Target) -> Calibration:
    assert target.rates is not None
    memory = target.rates.memory_gb_s * 1e9
    reached = memory * OF_MEMORY.get(target.architecture, USUAL_OF_MEMORY)
    access = AccessCosts(
        integrated=True, **{name: part * memory for name, part in COPIED_IN_MEMORY.items()}, copy_seconds=COPY_SECONDS,
        device=AccessRates(reached, reached, reached, reached),
        mapped=AccessRates(reached, reached, SCATTERED * reached, SCATTERED * reached),
        is_cached=False, host=HOST, pinned_by_host=HOST, launch_seconds=GPU_LAUNCH,
        managed=Managed(MAPPING_SECONDS, MAPPED_PAGE, None, None, None, 0.0, 0.0),
    )  # fmt: skip
    guessed = (*GUESSED, "mapped.read", "mapped.write", "managed")
    sources = {"to_device": XAVIER, "to_host": XAVIER, "is_cached": UNCACHED}
    if target.architecture in OF_MEMORY:
        sources["device"] = READ_BY_ORIN
    return Calibration(target.key, target.name, Origin.MODELLED, _machine(access), access, guessed, sources)


def _machine(access: AccessCosts) -> MemoryMachine:
    """The links for swapping; flash is G10's."""
    return MemoryMachine(
        device_bytes=0, host_bytes=ANY_SIZE, flash_bytes=0, to_host=access.to_host, from_host=access.to_device,
        to_flash=G10.to_flash, from_flash=G10.from_flash, host_seconds=access.copy_seconds,
        flash_seconds=G10.flash_seconds,
    )  # fmt: skip
