"""A GPU of this machine, by the name that torch gives it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from vkernels.compiler.backends.architectures import refuse_unless_compiles
from vkernels.ir.limits import Limits
from vkernels.targets import limits_of
from vkernels.targets.slices import present_slice

from .driver import Driver

if TYPE_CHECKING:
    from vkernels.targets import Target


@dataclass(frozen=True)
class GpuDevice:
    """Device `number` of torch's, its driver, its sizes and the limits that plans are made for."""

    number: int
    driver: Driver
    target: Target
    limits: Limits

    @property
    def slice(self) -> str:
        """The slice that it was recognised as, or its own key."""
        like = self.target.like
        return like if like is not None and ":" in like else self.target.key

    @property
    def architecture(self) -> str:
        """What kernels are compiled for."""
        return self.target.architecture


@cache
def gpu_device(name: str) -> GpuDevice:
    """The device that torch calls `cuda:0`, found once.

    Raises `SetupError` where its driver is missing or the installed Triton does not compile for it.
    """
    import triton

    found = present_gpu(name)
    refuse_unless_compiles(found.architecture, triton.__version__)
    return found


@cache
def present_gpu(name: str) -> GpuDevice:
    """The same, whatever can be compiled for it. Raises `SetupError` where its driver is missing."""
    number, driver = int(name.partition(":")[2] or 0), gpu_driver()
    target = present_slice(driver.target(number))
    return GpuDevice(number, driver, target, limits_of(target))


@cache
def gpu_driver() -> Driver:
    """The driver of the GPUs that this torch is for. Raises `SetupError` where there is none."""
    import torch

    if torch.version.hip is not None:
        from .hip_driver import HipDriver

        return HipDriver()
    from .cuda_driver import CudaDriver

    return CudaDriver()
