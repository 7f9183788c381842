"""The part of a device that each of several tasks has, as a slice that plans can be tuned for."""

from __future__ import annotations

from dataclasses import replace

from vkernels.ir.errors import OptionError
from vkernels.ir.limits import Limits

from ..limits import limits_of
from ..present import present_cpu
from ..target import CpuSizes, Target
from .cuts import PAIRED
from .slice_of import slice_of


def cores_beside(threads: int) -> tuple[str, Limits]:
    """The slice of so many cores of this machine's CPU while other tasks run on the rest, and its limits.

    They have their part of the L3, so it is called `cpu:cores=1,l2=1048576`, with all of a core's L2: `cpu:cores=1` are
    cores of a process that has all of the L3, as `cpu_slice_limits` has them.
    """
    cpu = present_cpu()
    assert isinstance(cpu.sizes, CpuSizes), "of a CPU"
    found = slice_of(cpu, f"cores={min(threads, cpu.multiprocessors)},l2={cpu.sizes.block_shared}")
    return found.key, replace(limits_of(found), multiprocessors=threads)


def share_of(target: Target, tasks: int) -> Target:
    """An equal part of the multiprocessors: `sms=` as green contexts have them, `cus=` on AMD.

    Raises `OptionError` where there are fewer than a part needs.
    """
    number = target.multiprocessors // tasks
    if target.vendor == "amd":
        return slice_of(target, f"cus={number * (2 if target.architecture.startswith(PAIRED) else 1)}")
    rule = target.green_contexts
    if rule is not None:
        number = number // rule.multiple * rule.multiple
        if number < rule.least:
            raise OptionError(f"{target.key} has no {tasks} parts of {rule.least} multiprocessors")
    return slice_of(target, f"sms={number}")
