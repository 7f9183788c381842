"""Where a slice's calls run: which device, which cores."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from vkernels.compiler.arguments import CPU
from vkernels.ir.errors import OptionError, SetupError
from vkernels.ir.limits import Limits
from vkernels.targets import Target, known_targets, limits_of
from vkernels.targets.present import present_cpu
from vkernels.targets.slices import target_or_slice

_GPU = re.compile(r"(?:cuda|nvidia|amd):(\d{1,3})")


@dataclass(frozen=True)
class CpuAffinity:
    """`device`: as torch calls it. `cores`: of the CPU that the worker runs on."""

    device: str
    cores: tuple[int, ...]


def usable() -> tuple[int, ...]:
    """Numbers of the cores that this process may run on."""
    return tuple(sorted(os.sched_getaffinity(0)))


def target_of(name: str) -> Target:
    """A slice as a target: of this machine's CPU as `cpu:cores=1`, else of one in the table.

    Raises `OptionError` for what there is not.
    """
    return target_or_slice(name, {**known_targets(), CPU: present_cpu()})


def limits_for(name: str) -> Limits:
    """What a slice offers."""
    return limits_of(target_of(name))


def is_here(name: str) -> bool:
    """Whether a slice can be measured on this machine."""
    return name == CPU or name.startswith(f"{CPU}:") or _GPU.match(name) is not None


def place_of(name: str, cores: tuple[int, ...] | None = None) -> CpuAffinity:
    """Where a slice's calls run. `cores`: which ones; the last of this process's unless given, as the first take more
    interrupts.

    Raises `OptionError` for a slice that there is not or cores that are not this process's, and `SetupError` for one
    of a device that is not here.
    """
    mine = usable()
    odd = [core for core in cores or () if core not in mine]
    if odd or cores == ():
        raise OptionError(f"{name}: the cores {odd} are not among those of this process, {list(mine)}")
    if found := _GPU.match(name):
        return CpuAffinity(f"cuda:{found[1]}", cores or mine)
    target = target_of(name)
    if not is_here(name):
        raise SetupError(f"{name} is not here, so nothing can be measured on it; its times can be modelled")
    count = target.multiprocessors
    if cores is not None and len(cores) != count:
        raise OptionError(f"{name} has {count} cores, not {len(cores)}")
    if count > len(mine):
        raise OptionError(f"{name}: this process may use {len(mine)} cores")
    return CpuAffinity(CPU, cores or mine[len(mine) - count :])
