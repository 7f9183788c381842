"""Measure the cost of memory accesses on a GPU of this machine, with any timer: torch, or a fake in tests."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from statistics import median
from typing import Protocol

from vkernels.targets import Target

from .calibration import AccessCosts, AccessRates, Calibration, Managed, Origin
from .links import ANY_SIZE, G10, MemoryMachine

Tell = Callable[[str], None]
LARGE, SMALL, TINY = 256 << 20, 1 << 20, 4096
"""Bytes: much larger than caches; within every cache; so small that only the call's overhead is measured."""
OFTEN = 64
"""Reads of a small buffer in one kernel, to detect whether a cache holds it."""
CACHED = 2.0
"""Speed-up of repeated reads over memory, above which a buffer counts as cached."""
FAULT_BYTES = 2 << 20
"""Bytes that a page fault fetches: the maximum that NVIDIA's driver prefetches."""
ROUNDS = 5


class MemoryKind(StrEnum):
    """The memory of a kernel's buffer."""

    DEVICE = "device"
    MAPPED = "mapped"


class GpuTimer(Protocol):
    """Times single operations on one GPU, in seconds; caches are not flushed."""

    integrated: bool
    has_managed: bool
    has_prefetch: bool

    def copy(self, size: int, to_device: bool) -> float:
        """Time a copy between pinned host memory and device memory."""

    def kernel(
        self, memory: MemoryKind, size: int, writes: bool = False, scattered: bool = False, often: int = 1
    ) -> float:
        """Time a kernel that reads a buffer `often` times or writes it once, in order or by random 32-byte lines."""

    def first_touch(self, size: int, by_device: bool) -> float:
        """Time a kernel, or the CPU, that reads a managed buffer which the other side wrote last."""

    def prefetch(self, size: int) -> float:
        """Time the prefetch of a managed buffer that the host wrote last."""

    def launch(self) -> float:
        """Time an empty kernel, in a sequence of such."""

    def by_host(self, size: int, pinned: bool) -> float:
        """Time the CPU reading a buffer of pageable or pinned memory."""


def calibrate_gpu(timer: GpuTimer, target: Target, tell: Tell = lambda words: None) -> Calibration:
    """Measure a GPU for some seconds. Flash is not measured: its figures are G10's, marked unverified."""
    tell("copies")
    copying = max(0.0, min(_median(lambda: timer.copy(TINY, True)), _median(lambda: timer.copy(TINY, False))))
    to_device, to_host = (
        _rate(LARGE, _median(lambda way=way: timer.copy(LARGE, way)), copying)  # type: ignore[misc]
        for way in (True, False)
    )
    tell("kernels on the device's memory")
    launch = _median(timer.launch)
    device = _rates(timer, MemoryKind.DEVICE, launch)
    tell("kernels on the host's memory")
    mapped = _rates(timer, MemoryKind.MAPPED, launch)
    again = _rate(SMALL * OFTEN, _median(lambda: timer.kernel(MemoryKind.MAPPED, SMALL, often=OFTEN)), launch)
    tell("the CPU's own accesses")
    host, pinned = (
        _rate(LARGE, _median(lambda kind=kind: timer.by_host(LARGE, kind)), 0.0)  # type: ignore[misc]
        for kind in (False, True)
    )
    managed = None
    if timer.has_managed:
        tell("managed memory")
        managed = _managed(timer, device.read, host, launch)
    access = AccessCosts(
        timer.integrated, to_device, to_host, copying, device, mapped, again > CACHED * mapped.read, host, pinned,
        launch, managed,
    )  # fmt: skip
    machine = MemoryMachine(
        device_bytes=0, host_bytes=ANY_SIZE, flash_bytes=0, to_host=to_host, from_host=to_device,
        to_flash=G10.to_flash, from_flash=G10.from_flash, host_seconds=copying, flash_seconds=G10.flash_seconds,
    )  # fmt: skip
    unverified = ("to_flash", "from_flash", "flash_seconds")
    return Calibration(target.key, target.name, Origin.MEASURED, machine, access, unverified)


def _rates(timer: GpuTimer, memory: MemoryKind, launch: float) -> AccessRates:
    found = [
        _rate(LARGE, _median(lambda: timer.kernel(memory, LARGE, writes=writes, scattered=scattered)), launch)  # noqa: B023
        for scattered in (False, True)
        for writes in (False, True)
    ]
    return AccessRates(*found)


def _managed(timer: GpuTimer, of_device: float, of_host: float, launch: float) -> Managed:
    """Take the first page's latency from one page, and the rate from many, without the accesses themselves.

    The rate includes the cost of further faults.
    """
    first = max(0.0, _median(lambda: timer.first_touch(TINY, True)) - launch)
    there = _median(lambda: timer.first_touch(LARGE, True)) - launch - LARGE / of_device
    back = _median(lambda: timer.first_touch(LARGE, False)) - LARGE / of_host
    prefetch, asking = None, 0.0
    if timer.has_prefetch:
        asking = max(0.0, _median(lambda: timer.prefetch(TINY)))
        prefetch = _rate(LARGE, _median(lambda: timer.prefetch(LARGE)), asking)
    return Managed(0.0, FAULT_BYTES, _rate(LARGE, there, first), _rate(LARGE, back, first), prefetch, asking, first)


def _rate(size: int, seconds: float, beside: float) -> float:
    """Return bytes a second, after subtracting at most half of the time as overhead."""
    return size / max(1e-12, seconds - min(beside, max(0.0, seconds / 2)))


def _median(time: Callable[[], float]) -> float:
    time()
    return median(time() for _ in range(ROUNDS))
