"""The memories that tensors can be in and the links between them, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf, isfinite

from vkernels.ir.errors import OptionError

ANY_SIZE = 1 << 60
"""Bytes of a host that nothing is said of: more than there is."""


class Tier(StrEnum):
    """Where a tensor is while it is not on the device."""

    HOST = "host"
    FLASH = "flash"


@dataclass(frozen=True)
class MemoryMachine:
    """A device, its host and its flash. Bytes, bytes a second, seconds. Raises `OptionError` for what cannot be.

    Each link carries one transfer at a time each way, all four independently; but host and flash share the device's own
    link where `shared` says how much that carries each way: while flash moves, the host has what flash leaves.
    `fault_seconds`: what it costs to find out that memory is missing, once for each `fault_bytes` (only where nothing
    is planned: unified memory).

    What following a schedule costs the program's thread (`following.py`; a simulation alone knows nothing of it):
    `operation_seconds` an operation, `made_seconds` each tensor that it makes, whose bytes are copied at `made_rate`,
    `absence_seconds` each transfer that is begun; to or from the host one of up to `at_once` bytes is carried by that
    thread itself, and no link has to, and of flash one of up to `flash_at_once`; to hand a larger one to its link takes
    `hand_over_seconds`.
    """

    device_bytes: int
    host_bytes: int
    to_host: float
    from_host: float
    to_flash: float
    from_flash: float
    flash_bytes: float = inf
    shared: float | None = None
    host_seconds: float = 0.0
    flash_seconds: float = 0.0
    fault_seconds: float = 45e-6
    fault_bytes: int = 2 << 20
    operation_seconds: float = 0.0
    made_seconds: float = 0.0
    made_rate: float = inf
    absence_seconds: float = 0.0
    hand_over_seconds: float = 0.0
    at_once: int = 0
    flash_at_once: int = 0

    def __post_init__(self) -> None:
        for name in ("to_host", "from_host", "to_flash", "from_flash"):
            _expect(isfinite(getattr(self, name)) and getattr(self, name) > 0, f"{name}: more than 0 bytes a second")
        costs = ("operation_seconds", "made_seconds", "absence_seconds", "hand_over_seconds")
        for name in ("host_seconds", "flash_seconds", "fault_seconds", *costs):
            _expect(isfinite(getattr(self, name)) and getattr(self, name) >= 0, f"{name}: from 0 seconds, finite")
        _expect(self.made_rate > 0, "made_rate: more than 0 bytes a second")
        for name in ("device_bytes", "host_bytes", "flash_bytes", "at_once", "flash_at_once"):
            _expect(getattr(self, name) >= 0, f"{name}: from 0 bytes")
        _expect(self.fault_bytes > 0, "fault_bytes: more than 0 bytes")
        if self.shared is not None:
            _expect(self.shared > max(self.to_flash, self.from_flash), "shared: the device's link is faster than flash")

    @property
    def out_share(self) -> float:
        """Of its speed, what the link to the host has while flash is written."""
        return 1.0 if self.shared is None else min(1.0, (self.shared - self.to_flash) / self.to_host)

    @property
    def in_share(self) -> float:
        """Of its speed, what the link from the host has while flash is read."""
        return 1.0 if self.shared is None else min(1.0, (self.shared - self.from_flash) / self.from_host)

    def with_device(self, size: int) -> MemoryMachine:
        """The same with `size` bytes on the device."""
        return replace(self, device_bytes=size)

    def is_at_once(self, tier: Tier, size: int) -> bool:
        """Whether the program's thread carries so few bytes itself."""
        return size <= (self.at_once if tier is Tier.HOST else self.flash_at_once)

    def out_seconds(self, tier: Tier, size: int) -> float:
        """What it takes to carry `size` bytes from the device to `tier`, with the link to itself."""
        if tier is Tier.HOST:
            return self.host_seconds + size / self.to_host
        return self.flash_seconds + size / self.to_flash

    def in_seconds(self, tier: Tier, size: int) -> float:
        """What it takes to carry `size` bytes from `tier` to the device, with the link to itself."""
        if tier is Tier.HOST:
            return self.host_seconds + size / self.from_host
        return self.flash_seconds + size / self.from_flash


def _expect(holds: bool, message: str) -> None:
    if not holds:
        raise OptionError(message)


G10 = MemoryMachine(
    device_bytes=40 << 30,
    host_bytes=128 << 30,
    to_host=15.754e9,
    from_host=15.754e9,
    to_flash=3.2e9,
    from_flash=3.2e9,
    shared=15.754e9,
    host_seconds=5e-6,
    flash_seconds=20e-6,
)
"""G10's defaults (MICRO 2023, table 2 and the artifact's settings): PCIe 3.0 x16 that host and flash share."""
