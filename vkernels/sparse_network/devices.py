"""Devices for inference: the CPU, slices of it, and GPUs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError, SetupError
from vkernels.targets.host_cpu import usable_cores

VENDORS = {"cuda": "", "nvidia": "NVIDIA", "amd": "AMD"}
"""Prefixes of GPU names and their vendors: torch's own, for both vendors, and those of `vk targets`."""


@dataclass(frozen=True)
class InferenceWorker:
    """A worker of the device `device`, the `number`th. `threads`: CPU threads of its kernels, None for those of
    `set_threads`; `gpu`: torch's name of its GPU, or None."""

    device: str
    number: int
    threads: int | None
    gpu: str | None = None


def parse_devices(devices: Sequence[str]) -> list[InferenceWorker]:
    """The workers of devices: one per GPU, one for the CPU if it is the only device, else one per core.

    Raises `OptionError` for unknown and repeated devices and for more cores than exist, `SetupError` for an absent GPU.
    """
    if isinstance(devices, str) or not devices:
        raise OptionError(f"devices: expected a list of at least one, got {devices!r}")
    gpus = [_gpu(device) for device in devices]
    cores = [None if gpu is not None else _cores(device) for device, gpu in zip(devices, gpus, strict=True)]
    here = [gpu for gpu in gpus if gpu is not None]
    if twice := next((gpu for gpu in here if here.count(gpu) > 1), None):
        raise OptionError(f"devices: {twice} is named twice")
    if len(devices) == 1:
        return [InferenceWorker(devices[0], 0, cores[0], gpus[0])]
    if any(gpu is None and count is None for gpu, count in zip(gpus, cores, strict=True)):
        raise OptionError("devices: of several devices each slice of the CPU must say its cores: `cpu:cores=1`")
    if sum(filter(None, cores)) > usable_cores():
        raise OptionError(f"devices: {sum(filter(None, cores))} cores in all, but there are {usable_cores()}")
    return [
        InferenceWorker(device, number, None if gpu else 1, gpu)
        for number, (device, gpu, count) in enumerate(zip(devices, gpus, cores, strict=True))
        for _ in range(count or 1)
    ]


def threads_of(devices: Sequence[str]) -> int:
    """CPU threads of these devices; all threads if only GPUs are named. Raises as `parse_devices`."""
    workers = [worker for worker in parse_devices(devices) if worker.gpu is None]
    return sum(worker.threads or usable_cores() for worker in workers) or usable_cores()


def cut(ids: NDArray[np.int64], speeds: Sequence[float]) -> list[NDArray[np.int64]]:
    """Ids in parts, in proportion to speeds."""
    known = max(speeds) > 0  # else nothing was measured
    shares = np.array(speeds if known else [1.0] * len(speeds))
    bounds = np.rint(np.cumsum(shares) / shares.sum() * ids.size).astype(np.int64)
    return np.split(ids, bounds[:-1])


def torch_device(vendor: str, number: int) -> str:
    """Torch's name of a GPU; `vendor`: a key of `VENDORS`. Raises `SetupError` if torch sees no such GPU."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    named = f"{vendor}:{number}"
    theirs = "AMD" if torch.version.hip is not None else "NVIDIA"
    if count == 0 or VENDORS[vendor] not in ("", theirs):
        raise SetupError(f"devices: {named} is not here: torch {torch.__version__} sees no {VENDORS[vendor] or 'GPU'}")
    if number >= count:
        raise SetupError(f"devices: {named} is not here: torch sees {count} GPU{'s'[: count > 1]}, counted from 0")
    return f"cuda:{number}"


def _gpu(device: str) -> str | None:
    match = re.fullmatch(rf"({'|'.join(VENDORS)})(?::([0-9]{{1,3}}))?", device)
    return None if match is None else torch_device(match[1], int(match[2] or 0))


def _cores(device: str) -> int | None:
    match = re.fullmatch(r"cpu(?::cores=([1-9][0-9]{0,5}))?", device)
    if match is None:
        raise OptionError(
            f"devices: {device!r} is "
            "neither `cpu`, some of its cores, `cpu:cores=1`, nor a GPU, `cuda:0`, `nvidia:0`, `amd:0`"
        )
    if match[1] is None:
        return None
    if int(match[1]) > usable_cores():
        raise OptionError(f"devices: {device} has more cores than there are: {usable_cores()}")
    return int(match[1])
