"""The memories that tensors can be in and the links between them, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from math import inf, isfinite

from vkernels.ir.errors import OptionError

ANY_SIZE = 1 << 60
"""Bytes of an unlimited host."""


class Tier(StrEnum):
    """Where a tensor is while it is not on the device."""

    HOST = "host"
    FLASH = "flash"


@dataclass(frozen=True)
class MemoryMachine:
    """A device, its host and its flash. Bytes, bytes a second, seconds. Raises `OptionError` for impossible values.

    Each link and direction carries one transfer at a time, all four independently. With `shared`, the rate of the
    device's own link in each direction, host and flash share it: the host gets what flash leaves. `fault_seconds`: the
    cost of a page fault for each `fault_bytes` (only without a plan: unified memory). A fault moves 64 KiB, or up to
    2 MiB where the driver's prefetching finds neighbouring faults.

    `host_to_flash`, `flash_to_host`: rates between host and flash, where schedules may move tensors between them; None:
    they may not. These moves take turns with the device's on flash, but do not take of its link. `translation_seconds`:
    the cost of a new address in a page table that device, host and flash share, for each `translation_bytes` of a
    tensor that goes to the device or from it.

    The overhead of following a schedule for the program's thread (`following.py`; `simulate` ignores it):
    `operation_seconds` for an operation, `made_seconds` for each tensor that it makes, whose bytes are copied at
    `made_rate`, and `absence_seconds` for each transfer. The thread itself copies up to `at_once` bytes to or from the
    host, and `flash_at_once` to or from flash; handing a larger transfer to its link takes `hand_over_seconds`.
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
    fault_bytes: int = 64 << 10
    host_to_flash: float | None = None
    flash_to_host: float | None = None
    translation_seconds: float = 0.0
    translation_bytes: int = 64 << 10
    operation_seconds: float = 0.0
    made_seconds: float = 0.0
    made_rate: float = inf
    absence_seconds: float = 0.0
    hand_over_seconds: float = 0.0
    at_once: int = 0
    flash_at_once: int = 0

    def __post_init__(self) -> None:
        for each in fields(self):
            name, value = each.name, getattr(self, each.name)
            if name in ("host_to_flash", "flash_to_host"):
                _expect(value is None or (isfinite(value) and value > 0), f"{name}: more than 0 bytes a second")
            elif name.endswith("_seconds"):
                _expect(isfinite(value) and value >= 0, f"{name}: from 0 seconds, finite")
            elif name.startswith(("to_", "from_")):
                _expect(isfinite(value) and value > 0, f"{name}: more than 0 bytes a second")
            elif name in ("made_rate", "fault_bytes", "translation_bytes"):
                _expect(value > 0, f"{name}: more than 0")
            elif name != "shared":
                _expect(value >= 0, f"{name}: from 0 bytes")
        _expect((self.host_to_flash is None) == (self.flash_to_host is None), "host_to_flash: with flash_to_host")
        if self.shared is not None:
            _expect(self.shared > max(self.to_flash, self.from_flash), "shared: the device's link is faster than flash")

    @property
    def out_share(self) -> float:
        """The share of its rate that the link to the host has while flash is written."""
        return 1.0 if self.shared is None else min(1.0, (self.shared - self.to_flash) / self.to_host)

    @property
    def in_share(self) -> float:
        """The share of its rate that the link from the host has while flash is read."""
        return 1.0 if self.shared is None else min(1.0, (self.shared - self.from_flash) / self.from_host)

    def with_device(self, size: int) -> MemoryMachine:
        """Return the machine with `size` bytes on the device."""
        return replace(self, device_bytes=size)

    def staged(self) -> MemoryMachine:
        """Return the machine without direct transfers between device and flash: bytes pass through a buffer of the
        host, first over one link, then over the other. Moves between host and flash are as before."""
        return replace(
            self,
            to_flash=1 / (1 / self.to_host + 1 / self.to_flash),
            from_flash=1 / (1 / self.from_host + 1 / self.from_flash),
            flash_seconds=self.host_seconds + self.flash_seconds,
        )

    @property
    def has_moves(self) -> bool:
        """Whether schedules may move tensors between host and flash."""
        return self.host_to_flash is not None

    def with_moves(self) -> MemoryMachine:
        """Return the machine with moves between host and flash, at the rates of flash."""
        return replace(self, host_to_flash=self.to_flash, flash_to_host=self.from_flash)

    def without_moves(self) -> MemoryMachine:
        """Return the machine without moves between host and flash."""
        return replace(self, host_to_flash=None, flash_to_host=None)

    def down_seconds(self, size: int) -> float:
        """Seconds to move `size` bytes from the host to flash."""
        return self.flash_seconds + size / (self.host_to_flash or self.to_flash)

    def up_seconds(self, size: int) -> float:
        """Seconds to move `size` bytes from flash to the host."""
        return self.flash_seconds + size / (self.flash_to_host or self.from_flash)

    def _translated(self, size: int) -> float:
        return self.translation_seconds * -(-size // self.translation_bytes)

    def is_at_once(self, tier: Tier, size: int) -> bool:
        """Whether the program's thread copies so few bytes itself."""
        return size <= (self.at_once if tier is Tier.HOST else self.flash_at_once)

    def out_seconds(self, tier: Tier, size: int) -> float:
        """Seconds to copy `size` bytes from the device to `tier`, on an unshared link."""
        if tier is Tier.HOST:
            return self.host_seconds + size / self.to_host + self._translated(size)
        return self.flash_seconds + size / self.to_flash + self._translated(size)

    def in_seconds(self, tier: Tier, size: int) -> float:
        """Seconds to copy `size` bytes from `tier` to the device, on an unshared link."""
        if tier is Tier.HOST:
            return self.host_seconds + size / self.from_host + self._translated(size)
        return self.flash_seconds + size / self.from_flash + self._translated(size)


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
