"""What reaching memory costs on a GPU of this machine, measured by whatever times it: torch, or a fake in tests."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from statistics import median
from typing import Protocol

from vkernels.runtime.targets import Target

from .calibration import Access, Calibration, Managed, Origin, Rates
from .links import ANY_SIZE, G10, Machine

Tell = Callable[[str], None]
LARGE, SMALL, TINY = 256 << 20, 1 << 20, 4096
"""Bytes: far more than caches hold; what every cache holds; of which only what a call costs is seen."""
OFTEN = 64
"""How often a small buffer is read in one kernel, to see whether a cache keeps it."""
CACHED = 2.0
"""How many times as fast as from the memory itself bytes must come again, to be said to come out of a cache."""
FAULT_BYTES = 2 << 20
"""What a fault is said to bring: NVIDIA's driver fetches up to so much beside a page that is missing."""
ROUNDS = 5


class Memory(StrEnum):
    """Where a kernel's buffer is."""

    DEVICE = "device"
    MAPPED = "mapped"


class Timer(Protocol):
    """Times single things on one GPU, in seconds, once each; caches are left as they come."""

    integrated: bool
    has_managed: bool
    has_prefetch: bool

    def copy(self, size: int, to_device: bool) -> float:
        """Between pinned memory of the host and the device's."""

    def kernel(self, memory: Memory, size: int, writes: bool = False, scattered: bool = False, often: int = 1) -> float:
        """A kernel that reads a buffer `often` times, or writes it once, in order or in random order by lines of 32
        bytes."""

    def first_touch(self, size: int, by_device: bool) -> float:
        """A kernel, or the CPU, that reads a managed buffer which the other side has written last."""

    def prefetch(self, size: int) -> float:
        """Asking for a managed buffer that the host has written last, until it is on the device."""

    def launch(self) -> float:
        """A kernel that does next to nothing, among others like it."""

    def by_host(self, size: int, pinned: bool) -> float:
        """The CPU reads a buffer of ordinary or of pinned memory."""


def calibrate_gpu(timer: Timer, target: Target, tell: Tell = lambda words: None) -> Calibration:
    """Measure a GPU for some seconds. Flash is not measured: its figures are G10's, and said to be unverified."""
    tell("copies")
    copying = max(0.0, min(_median(lambda: timer.copy(TINY, True)), _median(lambda: timer.copy(TINY, False))))
    to_device, to_host = (
        _rate(LARGE, _median(lambda way=way: timer.copy(LARGE, way)), copying)  # type: ignore[misc]
        for way in (True, False)
    )
    tell("kernels on the device's memory")
    launch = _median(timer.launch)
    device = _rates(timer, Memory.DEVICE, launch)
    tell("kernels on the host's memory")
    mapped = _rates(timer, Memory.MAPPED, launch)
    again = _rate(SMALL * OFTEN, _median(lambda: timer.kernel(Memory.MAPPED, SMALL, often=OFTEN)), launch)
    tell("the CPU's own accesses")
    host, pinned = (
        _rate(LARGE, _median(lambda kind=kind: timer.by_host(LARGE, kind)), 0.0)  # type: ignore[misc]
        for kind in (False, True)
    )
    managed = None
    if timer.has_managed:
        tell("managed memory")
        managed = _managed(timer, device.read, host, launch)
    access = Access(
        timer.integrated, to_device, to_host, copying, device, mapped, again > CACHED * mapped.read, host, pinned,
        launch, managed,
    )  # fmt: skip
    machine = Machine(
        device_bytes=0, host_bytes=ANY_SIZE, flash_bytes=0, to_host=to_host, from_host=to_device,
        to_flash=G10.to_flash, from_flash=G10.from_flash, host_seconds=copying, flash_seconds=G10.flash_seconds,
    )  # fmt: skip
    unverified = ("to_flash", "from_flash", "flash_seconds")
    return Calibration(target.key, target.name, Origin.MEASURED, machine, access, unverified)


def _rates(timer: Timer, memory: Memory, launch: float) -> Rates:
    found = [
        _rate(LARGE, _median(lambda: timer.kernel(memory, LARGE, writes=writes, scattered=scattered)), launch)  # noqa: B023
        for scattered in (False, True)
        for writes in (False, True)
    ]
    return Rates(*found)


def _managed(timer: Timer, of_device: float, of_host: float, launch: float) -> Managed:
    """The first page's wait from one page; the rate from many, the accesses themselves taken off. What faults cost on
    top of bytes that come anyway is in that rate."""
    first = max(0.0, _median(lambda: timer.first_touch(TINY, True)) - launch)
    there = _median(lambda: timer.first_touch(LARGE, True)) - launch - LARGE / of_device
    back = _median(lambda: timer.first_touch(LARGE, False)) - LARGE / of_host
    prefetch, asking = None, 0.0
    if timer.has_prefetch:
        asking = max(0.0, _median(lambda: timer.prefetch(TINY)))
        prefetch = _rate(LARGE, _median(lambda: timer.prefetch(LARGE)), asking)
    return Managed(0.0, FAULT_BYTES, _rate(LARGE, there, first), _rate(LARGE, back, first), prefetch, asking, first)


def _rate(size: int, seconds: float, beside: float) -> float:
    """Bytes a second; what a call costs beside is at most half of it."""
    return size / max(1e-12, seconds - min(beside, max(0.0, seconds / 2)))


def _median(time: Callable[[], float]) -> float:
    time()
    return median(time() for _ in range(ROUNDS))
