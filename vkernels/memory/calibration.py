"""The cost of moving and accessing memory on a device: measured, or modelled from the target table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from vkernels.ir.errors import OptionError

from .links import MemoryMachine
from .strict_json import Number, Record

Rate = Annotated[float, Meta(gt=0, le=1e30)]
"""Bytes a second."""


class Origin(StrEnum):
    """Where the figures come from."""

    MEASURED = "measured"
    MODELLED = "modelled"


class AccessRates(Record, frozen=True):
    """Rates of a kernel's accesses: sequential, and scattered by indices."""

    read: Rate
    write: Rate
    scattered_read: Rate
    scattered_write: Rate


class Managed(Record, frozen=True):
    """Costs of managed memory, which the driver migrates to the side that accesses it.

    The first page takes `first_seconds` to migrate. Each `fault_bytes` cost one fault of `fault_seconds`, and the bytes
    move at `to_device` or `to_host`; None: pages do not move. Prefetching a buffer costs `prefetch_seconds` and its
    bytes at the rate `prefetch`; None: there is no prefetching.
    """

    fault_seconds: Number
    fault_bytes: Annotated[int, Meta(ge=1, le=1 << 60)]
    to_device: Rate | None
    to_host: Rate | None
    prefetch: Rate | None
    prefetch_seconds: Number
    first_seconds: Number


class AccessCosts(Record, frozen=True):
    """Costs of copying buffers to a GPU, or of accessing them in place. Rates, and seconds.

    `integrated`: the device's memory is the host's. `to_device`, `to_host`: rates of copies; `copy_seconds`: latency of
    one. `device`: a kernel's accesses to device memory; `mapped`: to pinned host memory, which GPU caches keep if
    `is_cached`. `host`, `pinned_by_host`: a CPU's own accesses to pageable and to pinned memory. `managed`: None
    without managed memory.
    """

    integrated: bool
    to_device: Rate
    to_host: Rate
    copy_seconds: Number
    device: AccessRates
    mapped: AccessRates
    is_cached: bool
    host: Rate
    pinned_by_host: Rate
    launch_seconds: Number
    managed: Managed | None


@dataclass(frozen=True)
class Calibration:
    """Figures of one device. Raises `OptionError` for impossible access costs.

    `target`: a key of `vk targets`; `device`: its name. `machine`: the links for planning schedules, without memory
    sizes. `access`: the costs for placing buffers; None for a CPU. `unverified`: fields that are neither measured nor
    published. `sources`: of other fields, by name.
    """

    target: str
    device: str
    origin: Origin
    machine: MemoryMachine
    access: AccessCosts | None = None
    unverified: tuple[str, ...] = ()
    sources: Mapping[str, str] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        try:
            msgspec.convert(msgspec.to_builtins(self.access), AccessCosts | None)
        except msgspec.ValidationError as error:
            raise OptionError(str(error)) from None

    def with_sizes(self, device: int, host: int, flash: float) -> MemoryMachine:
        """Return the machine with these memory sizes."""
        return replace(self.machine, device_bytes=device, host_bytes=host, flash_bytes=flash)
