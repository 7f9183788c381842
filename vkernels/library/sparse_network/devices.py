"""What inference runs on: the CPU, or slices of it side by side, each with its part of the images."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vkernels.ir.errors import OptionError
from vkernels.runtime.devices.cpu import usable_cores


def parse_devices(devices: Sequence[str]) -> list[tuple[str, int | None]]:
    """Workers, each the device that it belongs to and the threads that its kernels use (None: as `set_threads` said).

    One device is one worker. Of several, each core is a worker of its own; devices of one name are told apart by `#`
    and their number. Raises `OptionError` for what is no slice of the CPU, and for more cores than there are.
    """
    if isinstance(devices, str) or not devices:
        raise OptionError(f"devices: expected a list of at least one, got {devices!r}")
    cores = [_cores(device) for device in devices]
    if len(devices) == 1:
        return [(devices[0], cores[0])]
    if None in cores:
        raise OptionError("devices: of several slices of the CPU each must say its cores: `cpu:cores=1`")
    if sum(filter(None, cores)) > usable_cores():
        raise OptionError(f"devices: {sum(filter(None, cores))} cores in all, but there are {usable_cores()}")
    return [(f"{d}#{n}", 1) for n, (d, count) in enumerate(zip(devices, cores, strict=True)) for _ in range(count or 0)]


def cut(ids: NDArray[np.int64], speeds: Sequence[float]) -> list[NDArray[np.int64]]:
    """Ids in parts, in proportion to speeds."""
    known = max(speeds) > 0  # else no one has done anything yet
    shares = np.array(speeds if known else [1.0] * len(speeds))
    bounds = np.rint(np.cumsum(shares) / shares.sum() * ids.size).astype(np.int64)
    return np.split(ids, bounds[:-1])


def _cores(device: str) -> int | None:
    match = re.fullmatch(r"cpu(?::cores=([1-9][0-9]{0,5}))?", device)
    if match is None:
        raise OptionError(f"devices: {device!r} is neither `cpu` nor some of its cores, `cpu:cores=1`")
    if match[1] is None:
        return None
    if int(match[1]) > usable_cores():
        raise OptionError(f"devices: {device} has more cores than there are: {usable_cores()}")
    return int(match[1])
