"""The slices that this process was given: a MIG instance, a share under MPS, what affinity and control groups leave."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction

from vkernels.ir.errors import OptionError
from vkernels.ir.limits import Limits

from ..limits import limits_of
from ..present import ALIKE, DRIVER_SECONDS, present_cpu, present_targets
from ..table import known_targets
from ..target import Target
from .slice_of import slice_of

MPS = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
"""NVIDIA's own interface: what a client of the MPS server was granted. Without a server it has no effect."""

_CORES = re.compile(r"cpu(?::(cores=\d{1,6}))?")
_INSTANCE = re.compile(r"\bMIG (\d+g\.\d+gb)")


def present_slices(patience: float = DRIVER_SECONDS) -> tuple[Target, ...]:
    """`present_targets`, each as `present_slice` knows it."""
    return tuple(map(present_slice, present_targets(patience)))


def present_slice(target: Target) -> Target:
    """A device of this machine, with the rates of its slice, if that can be recognised.

    Sizes are always those that the driver reports: inside a container a MIG instance is a device with few
    multiprocessors, and to a client of MPS the device has fewer than it has. If a known device has such a slice, its
    rates are taken, and `like` names it; else the target comes back as it was. The CPU's cores are those that affinity
    and a control group's quota leave.
    """
    for found in _candidates(target):
        same = found.multiprocessors == target.multiprocessors
        if same and found.rates is not None and abs(found.memory - target.memory) < ALIKE * found.memory:
            return replace(target, rates=found.rates, unverified=found.unverified, like=found.key)
    return target


def cpu_slice_limits(threads: int) -> Limits:
    """The limits of this machine's CPU for calls on `threads` threads: rates of that many cores, and all of the L3, as
    one process has it."""
    cpu = present_cpu()
    limits = limits_of(cpu)
    if threads < cpu.multiprocessors:
        limits = replace(limits_of(slice_of(cpu, f"cores={threads}")), cache=limits.cache)
    return replace(limits, multiprocessors=threads)


def planned_limits(target: Target) -> Limits:
    """The limits that calls on a device or slice plan for: of this machine's CPU, or so many of its cores, those of
    calls on as many threads."""
    found = _CORES.fullmatch(target.key)
    if found is None:
        return limits_of(target)
    here = present_cpu() if found[1] is None else slice_of(present_cpu(), found[1])
    return cpu_slice_limits(target.multiprocessors) if target == here else limits_of(target)


def _candidates(target: Target) -> Iterator[Target]:
    """Slices of known devices that this device may be, those with the most similar memory first."""
    instance = _INSTANCE.search(target.name)
    text = instance[1] if instance else _granted()
    if text is None or target.vendor != "nvidia":
        return
    known = [device for device in known_targets().values() if device.architecture == target.architecture]
    slices = []
    for device in known:
        try:
            slices.append(slice_of(device, text))
        except OptionError:  # a device without that profile
            continue
    yield from sorted(slices, key=lambda found: abs(found.memory - target.memory))


def _granted() -> str | None:
    """The share that the MPS server grants, as a slice; None for no limit, and for a value that is no percentage."""
    percent = os.environ.get(MPS, "").strip()
    if not re.fullmatch(r"[0-9]{1,3}(?:\.[0-9]{1,3})?", percent) or not 0 < Fraction(percent) < 100:
        return None
    return f"mps={percent}"
