"""The device, limits and CPU cores that the name of a slice stands for."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from vkernels.compiler.arguments import CPU
from vkernels.ir.errors import OptionError, SetupError
from vkernels.ir.limits import Limits
from vkernels.targets import Target, known_targets, limits_of
from vkernels.targets.present import present_cpu
from vkernels.targets.slices import cpu_slice_limits, target_or_slice

_CORES = re.compile(r"cpu(?::cores=(\d{1,6}))?")
_GPU = re.compile(r"(?:cuda|nvidia|amd):(\d{1,3})")


@dataclass(frozen=True)
class CpuAffinity:
    """`device`: as torch names it. `cores`: cores of the CPU that the worker runs on."""

    device: str
    cores: tuple[int, ...]


def usable() -> tuple[int, ...]:
    """Numbers of the cores that this process may run on."""
    return tuple(sorted(os.sched_getaffinity(0)))


def target_of(name: str) -> Target:
    """A slice of this machine's CPU, as `cpu:cores=1`, or of a known device. Raises `OptionError` for unknown names."""
    return target_or_slice(name, {**known_targets(), CPU: present_cpu()})


def slice_limits(name: str) -> Limits:
    """The limits of a slice, as launches plan for them: of this machine's CPU or GPUs, or of a known device.

    Raises `OptionError` for unknown names, and `SetupError` for an absent GPU.
    """
    if found := _CORES.fullmatch(name):
        target_of(name)  # refuses too many cores
        return cpu_slice_limits(int(found[1] or present_cpu().multiprocessors))
    if found := _GPU.fullmatch(name):
        from vkernels.runtime.gpu.device import gpu_device

        return gpu_device(f"cuda:{found[1]}").limits
    return limits_of(target_of(name))


def slice_target(name: str) -> Target:
    """The device that a slice is, or is part of. Raises as `slice_limits`."""
    if found := _GPU.fullmatch(name):
        from vkernels.runtime.gpu.device import gpu_device

        return gpu_device(f"cuda:{found[1]}").target
    return target_of(name)


def is_here(name: str) -> bool:
    """Whether a slice can be measured on this machine."""
    return whole_device(name) == CPU or _GPU.match(name) is not None


def is_as_calls_see_it(name: str) -> bool:
    """Whether calls of a process on the slice's cores plan for the slice's limits: it has no others of its own."""
    return _CORES.fullmatch(name) is not None or _GPU.fullmatch(name) is not None


def whole_device(name: str) -> str:
    """The device that a slice is part of."""
    return CPU if name.partition(":")[0] == CPU else name


def place_of(name: str, cores: tuple[int, ...] | None = None) -> CpuAffinity:
    """Where a slice's calls run. `cores`: by default the last ones of this process: the first get more interrupts.

    Raises `OptionError` for unknown names or cores of other processes, and `SetupError` for an absent device.
    """
    mine = usable()
    odd = [core for core in cores or () if core not in mine]
    if odd or cores == ():
        raise OptionError(f"{name}: the cores {odd} are not among those of this process, {list(mine)}")
    if found := _GPU.match(name):
        return CpuAffinity(f"cuda:{found[1]}", cores or mine)
    count = target_of(name).multiprocessors
    if not is_here(name):
        raise SetupError(f"{name} is not here, so nothing can be measured on it; its times can be modelled")
    if cores is not None and len(cores) != count:
        raise OptionError(f"{name} has {count} cores, not {len(cores)}")
    if count > len(mine):
        raise OptionError(f"{name}: this process may use {len(mine)} cores")
    return CpuAffinity(CPU, cores or mine[len(mine) - count :])
