"""Arrays in library functions: results are of the arguments' library, torch or NumPy."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from vkernels.ir.errors import ArgumentError, OutOfMemoryError
from vkernels.runtime.arrays import numpy_address
from vkernels.runtime.shared_launchers import others_are_used
from vkernels.targets.instruction_sets import lacking

from .replay import made, new_constant, refuse

Array = Any
"""A torch tensor or a NumPy array."""


class AllocationCheck:
    """Raises `OutOfMemoryError` if an array of a shape cannot be allocated."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]):
        self.shape = shape

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, MemoryError | ValueError | TypeError | OverflowError | RuntimeError):
            raise OutOfMemoryError(f"no memory for an array of shape {self.shape}") from error


def empty_like(array: Array, shape: tuple[int, ...], computed: bool = False) -> Array:
    """An uninitialised array of the given shape, with the library, dtype and device of another.

    `computed`: in the dtype that kernels compute in, which is float32 for 16-bit floats.
    """
    small = computed and array.dtype.itemsize < 4
    with AllocationCheck(shape):
        if isinstance(array, np.ndarray):
            return np.empty(shape, np.float32 if small else array.dtype)
        if small:
            import torch

            return made(array.new_empty(shape, dtype=torch.float32))
        return made(array.new_empty(shape))


def integers_like(array: Array, shape: tuple[int, ...]) -> Array:
    """An uninitialised array of int64, with the library and device of another."""
    with AllocationCheck(shape):
        if isinstance(array, np.ndarray):
            return np.empty(shape, np.int64)
        import torch

        return made(array.new_empty(shape, dtype=torch.int64))


def empty_of(array: Array, shape: tuple[int, ...], dtype: str, function: str = "empty_of") -> Array:
    """An uninitialised array of a dtype by its name, with the library and device of another.

    Raises `ArgumentError` if the library has no such dtype.
    """
    if isinstance(array, np.ndarray):
        found = getattr(np, dtype, None)
        if isinstance(found, type) and issubclass(found, np.generic):
            with AllocationCheck(shape):
                return np.empty(shape, found)
        raise ArgumentError(f"{function}: dtype is {dtype!r}, but NumPy has no dtype {dtype!r}")
    import torch

    if isinstance(found := getattr(torch, dtype, None), torch.dtype):
        with AllocationCheck(shape):
            return made(array.new_empty(shape, dtype=found))
    raise ArgumentError(f"{function}: dtype is {dtype!r}, but torch has no dtype {dtype!r}")


def is_of_eight_bits(array: Array) -> bool:
    """Whether an array has an f8 dtype, which only torch has."""
    return not isinstance(array, np.ndarray) and str(array.dtype).startswith("torch.float8")


def is_narrow_on_cpu(array: Array) -> bool:
    """Whether an array lies in a CPU's memory and has elements of 16 bits or fewer, as dot units take them."""
    on_cpu = isinstance(array, np.ndarray) or array.device.type == "cpu"
    return bool(on_cpu and array.dtype.itemsize < 4)


def joins_bf16(array: Array) -> bool:
    """Whether an array has bf16 elements, in the memory of a CPU whose dot unit takes neighbouring ones at once.

    Never while a bundle's calls are recorded or made: it may have been built on another machine.
    """
    return is_narrow_on_cpu(array) and dtype_name(array) == "bfloat16" and _has_bf16_unit() and not others_are_used()


@functools.cache
def _has_bf16_unit() -> bool:
    return not lacking("x86_64", ("avx512bf16",)) or not lacking("aarch64", ("bf16",))


def constant_like(array: Array, value: float, shape: tuple[int, ...]) -> Array:
    """One value as an array of any shape (strides 0), with the dtype of another."""
    if isinstance(array, np.ndarray):
        return np.broadcast_to(np.asarray(value, array.dtype), shape)
    return new_constant(array.device, lambda: array.new_full((1,) * len(shape), value).expand(shape))


def zeros(array: Array, shape: tuple[int, ...]) -> Array:
    """A new array of zeros, with the library, dtype and device of another."""
    refuse()
    with AllocationCheck(shape):
        return np.zeros(shape, array.dtype) if isinstance(array, np.ndarray) else array.new_zeros(shape)


def is_captured(device: Any) -> bool:
    """Whether work on a torch device is captured into a CUDA graph; `device` is None for NumPy."""
    if device is None or device.type != "cuda":
        return False
    import torch

    return torch.cuda.is_current_stream_capturing()


def read_on_this_stream(array: Array) -> Array:
    """The array, whose memory is given to nobody else before what the current stream runs now is done: another stream
    may have made it, and a cache may drop it at any time. Not for arrays that a graph reads, which must be kept."""
    if not isinstance(array, np.ndarray) and array.is_cuda:
        import torch

        array.record_stream(torch.cuda.current_stream(array.device))
    return array


def as_computed(array: Array) -> Array:
    """An array in the dtype that kernels compute in: float32 for 16-bit floats, else the array itself."""
    if array.dtype.itemsize >= 4:
        return array
    refuse()
    return array.astype(np.float32) if isinstance(array, np.ndarray) else array.float()


def laid_out(array: Array) -> Array:
    """A contiguous array: the array itself or a copy."""
    refuse()
    return np.ascontiguousarray(array) if isinstance(array, np.ndarray) else array.contiguous()


def dtype_name(array: Array) -> str:
    """The name of an array's dtype, common to torch and NumPy."""
    return str(array.dtype).removeprefix("torch.")


def is_unsigned(index: Array) -> bool:
    """Whether an array holds unsigned integers."""
    return dtype_name(index).startswith("uint")


def as_int64(index: Array) -> Array:
    """Integers as int64; unsigned ones from 2⁶³ on become negative, so that they are out of range too."""
    return index.astype(np.int64, copy=False) if isinstance(index, np.ndarray) else index.long()


def as_signed(index: Array) -> Array:
    """Integers that torch and NumPy can compare with int64: unsigned ones become int64."""
    return as_int64(index) if is_unsigned(index) else index


def flip(array: Array, dimensions: tuple[int, ...]) -> Array:
    """An array with some dimensions reversed."""
    return np.flip(array, dimensions) if isinstance(array, np.ndarray) else array.flip(dimensions)


def as_rows(array: Array) -> Array:
    """An array of any rank as a matrix of its last dimension's rows; a view if strides allow one."""
    if array.ndim == 2:
        return array
    return array.reshape((math.prod(array.shape[:-1]), *(array.shape[-1:] or (1,))))


def as_images(array: Array) -> Array:
    """An array of rank two or more as a stack of matrices; a view if strides allow one."""
    return array if array.ndim == 3 else array.reshape(math.prod(array.shape[:-2]), *array.shape[-2:])


def as_segments(array: Array, segment: int) -> Array:
    """The last dimension in segments of a length that divides it; always a view."""
    return array.reshape(*array.shape[:-1], array.shape[-1] // segment, segment)


def give_back(rows: Array, out: Array) -> None:
    """Copy `rows = as_rows(out)`, or `as_images(out)`, into `out` if it is no view of it."""
    if rows is not out and _address(rows) != _address(out):
        refuse()
        out[...] = rows.reshape(out.shape)


def fill(
    out: Array | None, like: Array, run: Callable[[Array], object], view: Callable[[Array], Array] = as_rows
) -> Array:
    """Call `run` with the rows of `out`, or of a new array like `like`, for it to write them; return that array.

    `view`: how the array is passed to `run`.
    """
    out = empty_like(like, tuple(like.shape)) if out is None else out
    results = view(out)
    run(results)
    give_back(results, out)
    return out


def check_apart(function: str, out: Array, **read: Array) -> None:
    """Raise `ArgumentError` if results would overwrite an argument that other programs still read."""
    for name, array in read.items():
        if 0 not in (*out.shape, *array.shape) and _address(out) == _address(array):
            raise ArgumentError(f"{function}: out is {name}, expected memory of its own")


def check_shape(function: str, name: str, array: Array, shape: tuple[int, ...]) -> None:
    """Raise `ArgumentError` if an argument has another shape."""
    if tuple(array.shape) != tuple(shape):
        raise ArgumentError(f"{function}: {name} has shape {tuple(array.shape)}, expected {tuple(shape)}")


def _address(array: Array) -> int:
    return numpy_address(array) if isinstance(array, np.ndarray) else int(array.data_ptr())
