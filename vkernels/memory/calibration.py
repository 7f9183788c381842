"""The cost of moving and accessing memory on a device: measured, or modelled from the target table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from math import isfinite

from vkernels.ir.errors import OptionError

from .links import MemoryMachine


class Origin(StrEnum):
    """The origin of figures."""

    MEASURED = "measured"
    MODELLED = "modelled"


@dataclass(frozen=True)
class AccessRates:
    """Bytes a second of a kernel's accesses: sequential, and scattered by indices."""

    read: float
    write: float
    scattered_read: float
    scattered_write: float


@dataclass(frozen=True)
class Managed:
    """Costs of managed memory, which the driver migrates to where it is accessed.

    When the other side touches it, it waits `first_seconds` for the first page; each `fault_bytes` take `fault_seconds`
    and come at `to_device` or `to_host` bytes a second, None where pages stay where they are. Asked for beforehand, a
    buffer costs `prefetch_seconds` and its bytes at `prefetch`; None where nothing can be asked for.
    """

    fault_seconds: float
    fault_bytes: int
    to_device: float | None = None
    to_host: float | None = None
    prefetch: float | None = None
    prefetch_seconds: float = 0.0
    first_seconds: float = 0.0


@dataclass(frozen=True)
class AccessCosts:
    """What it costs to bring buffers to a GPU, or to let it reach them where they are. Bytes a second, seconds.

    `integrated`: its memory is the host's. `to_device`, `to_host`: of copies, of which each costs `copy_seconds` first.
    `device`: a kernel's accesses to the device's own memory; `mapped`: to pinned memory of the host. `is_cached`:
    whether its caches keep what it read there. `host`, `pinned_by_host`: a CPU's own accesses to ordinary and to pinned
    memory. `managed` is None where there is no such memory.
    """

    integrated: bool
    to_device: float
    to_host: float
    copy_seconds: float
    device: AccessRates
    mapped: AccessRates
    is_cached: bool
    host: float
    pinned_by_host: float
    launch_seconds: float
    managed: Managed | None = None


@dataclass(frozen=True)
class Calibration:
    """`target`: a key of `vk targets`; `device`: its name. `machine`: the links that schedules are planned with; its
    `device_bytes` and `flash_bytes` are for whoever plans to say. `access`: what placing goes by; None of a CPU.
    `unverified`: fields that rest on no published figure and no measurement. `sources`: of the others, by field.
    """

    target: str
    device: str
    origin: Origin
    machine: MemoryMachine
    access: AccessCosts | None = None
    unverified: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        if self.access is not None:
            check_access(self.access)

    def with_sizes(self, device: int, host: int, flash: float) -> MemoryMachine:
        """Return the machine with these memory sizes."""
        from dataclasses import replace

        return replace(self.machine, device_bytes=device, host_bytes=host, flash_bytes=flash)


def check_access(access: AccessCosts) -> None:
    """Raise `OptionError` naming the field for impossible figures."""
    for name, value in _figures(access):
        least_is_zero = name.endswith("seconds")
        if not isfinite(value) or value < 0 or (value == 0 and not least_is_zero):
            raise OptionError(f"{name}: expected a finite number {'from' if least_is_zero else 'above'} 0, got {value}")


def _figures(access: AccessCosts) -> list[tuple[str, float]]:
    found: list[tuple[str, float]] = []
    for part, prefix in (
        (access, ""),
        (access.device, "device."),
        (access.mapped, "mapped."),
        (access.managed, "managed."),
    ):
        for each in fields(part) if part is not None else ():
            value = getattr(part, each.name)
            if type(value) in (int, float):
                found.append((prefix + each.name, float(value)))
    return found
