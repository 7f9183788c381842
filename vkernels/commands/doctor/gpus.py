"""GPUs that the drivers show to this process."""

from __future__ import annotations

import os
from collections.abc import Iterator

from vkernels.targets.present import UNSAID, present_targets
from vkernels.targets.probe import AMD_LIBRARIES, NVIDIA_LIBRARIES
from vkernels.targets.target import Target

from .finding import Finding, Status

AREA = "GPUs"
HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def gpus() -> Iterator[Finding]:
    found = [target for target in present_targets() if target.vendor != "cpu"]
    for target in found:
        yield _device(target)
    if not found:
        yield Finding(AREA, "devices", "none that a driver shows; kernels compile for GPUs and run on the CPU")
    for name in HIDING:
        if name in os.environ:
            yield Finding(AREA, name, os.environ[name] or "empty: it hides all devices")
    if not found and (loaded := [name for name in (*NVIDIA_LIBRARIES, *AMD_LIBRARIES) if _loads(name)]):
        advice = "the driver is there, and shows no device: too old, not permitted (/dev/nvidia*, /dev/kfd), or hidden"
        yield Finding(AREA, "driver", loaded[0], Status.PROBLEM, advice)
    if found:
        yield _torch()


def _device(target: Target) -> Finding:
    sizes = f"{target.multiprocessors} multiprocessors, {target.memory / 2**30:.0f} GiB"
    found = f"{target.name}, {target.architecture}, {sizes}"
    if target.unverified == UNSAID:
        advice = f"it is in no table: planned like {target.like}; a table of your own can say more (docs/targets.md)"
        return Finding(AREA, target.key, found, Status.NOTE, advice)
    return Finding(AREA, target.key, found)


def _torch() -> Finding:
    """Kernels on GPUs take torch's tensors."""
    try:
        import torch
    except ImportError:
        return Finding(AREA, "torch", "is not installed", Status.PROBLEM, "kernels on GPUs take torch tensors")
    if torch.cuda.is_available():
        return Finding(AREA, "torch", f"{torch.__version__} sees {torch.cuda.device_count()}")
    advice = "this build of torch has no support for the GPU, or the driver is too old for it"
    return Finding(AREA, "torch", f"{torch.__version__} sees no GPU", Status.PROBLEM, advice)


def _loads(name: str) -> bool:
    import ctypes

    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
