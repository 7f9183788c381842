"""Find the device of a program's tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vkernels.ir.errors import SetupError

from .cpu_device import CpuDevice
from .device import MemoryDevice

if TYPE_CHECKING:
    import torch


def device_of(storages: Iterable[torch.UntypedStorage]) -> MemoryDevice:
    """The device that a program's tensors are on: the GPU, if some are on one; those on the CPU stay there then.

    Raises `SetupError` for tensors on several GPUs, on one that is not here, or on what has no arena here.
    """
    others = {storage.device for storage in storages} - {_cpu()}
    if not others:
        return CpuDevice()
    device, *more = sorted(others, key=str)
    if more:
        raise SetupError(f"memory on {device} and on {more[0]} cannot be limited together: only that of one device can")
    if device.type != "cuda":
        raise SetupError(f"memory on {device} cannot be limited yet: only that of the CPU and of GPUs can")
    from .cuda_device import CudaDevice

    return CudaDevice(device)


def _cpu() -> torch.device:
    import torch

    return torch.device("cpu")
