"""The devices of this machine as targets to compile for."""

from __future__ import annotations

from vkernels.compiler.arguments import CPU
from vkernels.compiler.request import CompileTarget
from vkernels.targets.slices import cpu_slice_limits

from .threads import get_threads


def present_target(device: str) -> CompileTarget:
    """A device of this machine, by torch's name of it; the CPU with the threads that calls may use."""
    if device == CPU:
        threads = get_threads()
        return CompileTarget(cpu_slice_limits(threads), CPU, f"{CPU}:cores={threads}")
    from .gpu.device import gpu_device

    found = gpu_device(device)
    return CompileTarget(found.limits, found.architecture, found.slice)
