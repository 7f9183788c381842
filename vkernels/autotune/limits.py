"""What plans for a slice are made for: the limits that launches on it have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vkernels.compiler.arguments import CPU
from vkernels.ir.limits import Limits
from vkernels.targets import limits_of
from vkernels.targets.present import present_cpu
from vkernels.targets.slices import cpu_slice_limits

from .measure.cpu_affinity import target_of

if TYPE_CHECKING:
    from vkernels.targets import Target

_CORES = re.compile(r"cpu(?::cores=(\d{1,6}))?")
_GPU = re.compile(r"(?:cuda|nvidia|amd):(\d{1,3})")


def slice_limits(name: str) -> Limits:
    """Of a slice, as launches on it plan: `cpu`, `cpu:cores=1`, a GPU of this machine, or one in the table.

    Raises `OptionError` for what there is not, and `SetupError` for a GPU that is not here.
    """
    if found := _CORES.fullmatch(name):
        target_of(name)  # which refuses too many
        return cpu_slice_limits(int(found[1] or present_cpu().multiprocessors))
    if found := _GPU.fullmatch(name):
        from vkernels.runtime.gpu.device import gpu_device

        return gpu_device(f"cuda:{found[1]}").limits
    return limits_of(target_of(name))


def slice_target(name: str) -> Target:
    """The device that a slice is, or is part of. Raises as `slice_limits` does."""
    if found := _GPU.fullmatch(name):
        from vkernels.runtime.gpu.device import gpu_device

        return gpu_device(f"cuda:{found[1]}").target
    return target_of(name)


def whole_device(name: str) -> str:
    """The device that a slice is part of."""
    return CPU if _CORES.fullmatch(name) or name.startswith(f"{CPU}:") else name
