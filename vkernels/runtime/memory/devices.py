"""Which device a program's memory is on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vkernels.ir.errors import SetupError

from .cpu_device import CpuDevice
from .device import Device

if TYPE_CHECKING:
    import torch


def device_of(storages: Iterable[torch.UntypedStorage]) -> Device:
    """The device that all of a program's tensors are on. Raises `SetupError` for one that has no arena here."""
    for storage in storages:
        if storage.device.type != "cpu":
            raise SetupError(f"memory on {storage.device} cannot be limited yet: only that of the CPU can")
    return CpuDevice()
