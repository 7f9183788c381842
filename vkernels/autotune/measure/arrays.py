"""Arrays of a measurement: copies laid out the same, moved to a device, as numbers to compare. NumPy's, or torch's for
what NumPy lacks."""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from vkernels.runtime.memory_blocks import ALIGNMENT

Array = Any


def is_array(value: object) -> bool:
    """Whether an argument is a tensor rather than a number."""
    return isinstance(value, np.ndarray) or hasattr(value, "data_ptr")


def byte_count(value: Array) -> int:
    """Bytes of all elements."""
    return int(value.nbytes)


def copied(value: Array, dtype: str | None = None) -> Array:
    """The same elements in memory of its own, with dimensions in memory in the same order; in another dtype if given.

    It begins at the boundary that vectors and stores past the caches need.
    """
    if not isinstance(value, np.ndarray):
        return value.clone() if dtype is None else value.to(getattr(_torch(), dtype))
    held = value.dtype if dtype is None else np.dtype(dtype)
    order = sorted(range(value.ndim), key=lambda dimension: -abs(value.strides[dimension]))
    shape = tuple(value.shape[dimension] for dimension in order)
    count = int(np.prod(shape, dtype=np.int64)) * held.itemsize
    room = np.empty(count + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    array = room[start : start + count].view(held).reshape(shape).transpose([order.index(n) for n in range(value.ndim)])
    array[...] = value
    return array


def refill(target: Array, source: Array) -> None:
    """Write the elements of one into the other."""
    if isinstance(target, np.ndarray):
        target[...] = source
    else:
        target.copy_(source)


def moved(value: Array, device: str) -> Array:
    """A torch tensor of the same layout on a GPU."""
    tensor = _torch().from_numpy(value) if isinstance(value, np.ndarray) else value
    return tensor.to(device)


def numbers(value: Array) -> npt.NDArray[Any]:
    """Elements in NumPy: floats in float64, others as they are. May be the array itself."""
    if not isinstance(value, np.ndarray):
        value = value.detach().cpu()
        value = value.double().numpy() if value.is_floating_point() else value.numpy()
    return np.asarray(value, np.float64) if value.dtype.kind == "f" else np.asarray(value)


def checksum(value: Array) -> int:
    """What tells whether anybody wrote to it, by mistake and not to deceive; hashes take five times as long."""
    if not isinstance(value, np.ndarray):
        value = value.detach().cpu().contiguous().view(_torch().uint8).numpy()
    return crc32(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)


def _torch() -> Any:
    import torch

    return torch
