"""Load compiled launches on a device, as functions of its driver."""

from __future__ import annotations

import re
from dataclasses import dataclass

from vkernels.compiler.backends.triton_adapter import Binary
from vkernels.compiler.compile_gpu import CompiledGpu
from vkernels.ir.errors import SetupError
from vkernels.ir.lowering.ttir import TtirLaunch
from vkernels.ir.planning.resources import OutOfResources, Resource, Shortage

from .device import GpuDevice

HIDDEN = 2
"""Parameters that Triton may add behind a kernel's own, in this order: its own scratch memory, a profiler's."""

_ENTRY = re.compile(r"\.entry\s+[\w$]+\s*\(([^)]*)\)")
_TABLE = re.compile(r"^\s+(?:- )?\.args:\n(.*?)^\s+\.group_segment_fixed_size:", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class LoadedLaunch:
    """A launch as a function of the device's.

    `resident`: programs that run at once on the whole device. `hidden`: parameters that Triton has added.
    """

    launch: TtirLaunch
    binary: Binary
    function: int
    resident: int
    hidden: int


def load(device: GpuDevice, compiled: CompiledGpu) -> tuple[LoadedLaunch, ...]:
    """Load every launch on a device.

    Raises `OutOfResources` where a program does not fit on a multiprocessor, `SetupError` where the driver refuses.
    """
    with device.driver.on(device.number):
        return tuple(_load(device, launch, binary, compiled) for launch, binary in compiled.launches)


def loaded_on(device: GpuDevice, compiled: CompiledGpu) -> tuple[LoadedLaunch, ...]:
    """Compiled launches on a device, loaded at the first call for it and kept with the code."""
    loaded = compiled.loaded.get(device.number)
    if loaded is None:
        loaded = compiled.loaded.setdefault(device.number, load(device, compiled))
    return loaded


def _load(device: GpuDevice, launch: TtirLaunch, binary: Binary, compiled: CompiledGpu) -> LoadedLaunch:
    limits, driver = device.limits, device.driver
    if binary.shared > limits.shared:
        reason = f"needs {binary.shared} bytes of shared memory a program, {device.target.name} has {limits.shared}"
        raise OutOfResources(Shortage(Resource.SHARED, binary.shared, limits.shared, reason), launch.name)
    function = driver.load(binary.code, binary.name, binary.shared)
    blocks = driver.resident(function, binary.threads, binary.shared)
    if blocks < 1:
        reason = (
            f"needs more registers or threads than {device.target.name} has: a program of "
            f"{binary.threads} threads and {binary.shared} bytes of shared memory does not fit on a multiprocessor"
        )
        raise OutOfResources(Shortage(Resource.REGISTERS, 0, 0, reason), launch.name)
    resident = compiled.plan.resident_programs or blocks * limits.multiprocessors
    return LoadedLaunch(launch, binary, function, resident, hidden_parameters(binary, len(launch.parameters)))


def hidden_parameters(binary: Binary, own: int) -> int:
    """How many parameters the compiled kernel has beside its `own`. Raises `SetupError` for more than are known."""
    hidden = _parameters(binary) - own
    if not 0 <= hidden <= HIDDEN:
        raise SetupError(
            f"Triton {binary.triton} gave {binary.name} {own + hidden} parameters for {own}: more than vkernels knows"
        )
    return hidden


def _parameters(binary: Binary) -> int:
    """The number of parameters that PTX declares or AMD's metadata lists, without those that HIP fills in."""
    if binary.architecture.startswith("sm_"):
        if entry := _ENTRY.search(binary.assembly):
            return entry[1].count(".param ")
    elif table := _TABLE.search(binary.assembly):
        kinds = re.findall(r"\.value_kind:\s+(\w+)", table[1])
        return sum(not kind.startswith("hidden_") for kind in kinds)
    raise SetupError(f"the assembly of {binary.name} does not say what parameters it has")
