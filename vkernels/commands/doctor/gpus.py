"""GPUs that the drivers show to this process."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import suppress

from vkernels.targets.driver_version import driver_version
from vkernels.targets.present import UNSAID, present_targets
from vkernels.targets.probe import AMD_LIBRARIES, NVIDIA_LIBRARIES
from vkernels.targets.target import Target

from .finding import Finding, Status
from .software import tool_path

AREA = "GPUs"
TOOL_SECONDS = 10.0
HIDING = ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")


def gpus() -> Iterator[Finding]:
    found = [target for target in present_targets() if target.vendor != "cpu"]
    for target in found:
        yield _device(target)
    if not found:
        yield Finding(AREA, "devices", "none that a driver shows; kernels compile for GPUs and run on the CPU")
    for name in HIDING:
        if name in os.environ:
            yield Finding(AREA, name, _chosen(os.environ[name]))
    yield from _driver({target.vendor for target in found})
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


def _chosen(value: str) -> str:
    """What a variable leaves visible: numbers, or identities of devices and of MIG instances.

    >>> _chosen("0,1"), _chosen("MIG-7e05d4d6-2a06-5a4c-9a7e-0f9a4f6b2d11")
    ('0,1', 'MIG-7e05d4d6-2a06-5a4c-9a7e-0f9a4f6b2d11: an instance of MIG')
    """
    names = [each.strip() for each in value.split(",") if each.strip()]
    instances = sum(each.startswith("MIG-") for each in names)
    if not names:
        return "empty: it hides all devices"
    return (
        value if not instances else f"{value}: {'an instance' if instances == 1 else f'{instances} instances'} of MIG"
    )


def _driver(vendors: set[str]) -> Iterator[Finding]:
    """The drivers of the devices found. Code of a newer CUDA than NVIDIA's driver knows does not load."""
    for vendor in sorted(vendors):
        version = driver_version(vendor) or "of a version that the system does not tell"
        runs, makes = (_cuda_of_driver(), _cuda_of_ptxas()) if vendor == "nvidia" else (None, None)
        if runs is None:
            yield Finding(AREA, f"{vendor}'s driver", version)
        elif makes is not None and runs[0] < makes[0]:
            advice = f"Triton makes code for CUDA {makes[0]}: install a newer driver, or an older Triton"
            shown = f"{version}, for CUDA {runs[0]}.{runs[1]}"
            yield Finding(AREA, f"{vendor}'s driver", shown, Status.PROBLEM, advice)
        else:
            yield Finding(AREA, f"{vendor}'s driver", f"{version}, for CUDA {runs[0]}.{runs[1]}")


def _cuda_of_driver() -> tuple[int, int] | None:
    """The newest CUDA whose code NVIDIA's driver runs."""
    number = ctypes.c_int()
    for name in NVIDIA_LIBRARIES:
        with suppress(OSError, AttributeError):
            if ctypes.CDLL(name).cuDriverGetVersion(ctypes.byref(number)) == 0 and number.value:
                return number.value // 1000, number.value % 1000 // 10
    return None


def _cuda_of_ptxas() -> tuple[int, int] | None:
    """The CUDA that Triton's `ptxas` belongs to."""
    if (tool := tool_path("ptxas")) is None:
        return None
    try:
        said = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=TOOL_SECONDS).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    release = re.search(r"release (\d+)\.(\d+)", said)
    return (int(release[1]), int(release[2])) if release else None


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
    try:
        ctypes.CDLL(name)
    except OSError:
        return False
    return True
