"""Arguments of a task's calls: make them as the kernel's author would, copy them, move them to a device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
import numpy.typing as npt
from xdsl.ir import BlockArgument

from vkernels.compiler.specialise import kernel_in, written_tensors
from vkernels.inspect.task import Task, kernel_of, memory_order, shape_of, signature_of
from vkernels.ir.dialect import AccessOp, KernelOp, WriteOp
from vkernels.ir.errors import ArgumentError
from vkernels.language.annotations import Parameter
from vkernels.runtime.arrays import parts_of
from vkernels.runtime.memory_blocks import ALIGNMENT

if TYPE_CHECKING:
    import torch

Array = Any
"""A NumPy array; a torch tensor of a dtype that NumPy lacks."""
COLUMNS = 4096
"""Bytes of a row of a checksum on a device."""
TORCH_ONLY = ("bfloat16", "float8_e4m3fn", "float8_e5m2")


def make_arguments(
    task: Task, seed: int = 0, own: Mapping[str, Any] | None = None
) -> dict[str, Array | bool | int | float]:
    """Tensors and scalars by name, in the order of the parameters; constants are the task's. The same for a seed.

    `own`: a user's values, which replace those that would be made. Tensors that the kernel only writes are full of NaN,
    or of -1. Raises `ArgumentError` for integer tensors of a user's kernel without `@kernel.inputs`, and for wrong
    results of that function.
    """
    kernel, random = kernel_of(task), np.random.default_rng(seed)
    constants = {p.name: p.default for p in kernel.parameters if p.kind == "constant"} | dict(task.constants)
    authors = {**kernel.samples.arrays(task.shape, constants, random), **_author_inputs(task, random)}
    given = {**authors, **(own or {})}
    numbers = {**scalars(task, authors), **{name: n for name, n in (own or {}).items() if not is_array(n)}}
    unread = _only_written(kernel_in(kernel.build(signature_of(task, numbers))))
    made: dict[str, Array | bool | int | float] = {}
    for parameter in kernel.parameters:
        if parameter.kind == "scalar":
            made[parameter.name] = numbers[parameter.name]
        elif parameter.kind == "tensor":
            made[parameter.name] = _tensor(task, parameter, given, parameter.name in unread, random)
    return made


def outputs(task: Task) -> tuple[str, ...]:
    """Names of the tensors that the kernel writes, in the order of its parameters."""
    return written_tensors(built(task))


def built(task: Task) -> KernelOp:
    """The kernel's IR as written, for the task's dtypes and constants."""
    return kernel_in(kernel_of(task).build(signature_of(task, scalars(task))))


def scalars(task: Task, given: Mapping[str, Any] | None = None) -> dict[str, bool | int | float]:
    """Scalars by name. `given`: the result of `@kernel.inputs`, if known already."""
    kernel = kernel_of(task)
    known = {**(_author_inputs(task) if given is None else given), **kernel.samples.numbers(task.shape)}
    found: dict[str, bool | int | float] = {}
    for parameter in kernel.parameters:
        if parameter.kind == "scalar":
            usual = {"f64": 0.5, "i64": 1, "i1": True}[parameter.dtypes[0]]
            default = usual if parameter.default is parameter.MISSING else parameter.default
            value = known.get(parameter.name, default)
            if not isinstance(value, bool | int | float):
                raise ArgumentError(f"{task.name}: inputs: {parameter.name}: expected a number, got {value!r}")
            found[parameter.name] = value
    return found


def _author_inputs(task: Task, random: np.random.Generator | None = None) -> dict[str, Any]:
    kernel = kernel_of(task)
    found = kernel.inputs_for(task.shape, task.dtypes, np.random.default_rng(0) if random is None else random)
    names = [parameter.name for parameter in kernel.parameters if parameter.kind != "constant"]
    if not isinstance(found, Mapping) or not found.keys() <= set(names):
        raise ArgumentError(f"{task.name}: inputs: expected a dict with some of {', '.join(names)}")
    return dict(found)


def _tensor(task: Task, parameter: Parameter, given: Mapping[str, Any], only_written: bool, random: Any) -> Array:
    name, shape, dtype = parameter.name, shape_of(task, parameter), task.dtypes[parameter.name]
    order = memory_order(kernel_of(task), parameter)
    if name in given:
        values = np.asarray(given[name])
        values = parts_of(values) if parameter.is_complex else values
        if values.shape != shape or values.dtype == object:
            raise ArgumentError(
                f"{task.name}: inputs: {name} has shape {values.shape}, expected numbers of shape {shape}"
            )
    elif only_written:
        held = "float32" if dtype in TORCH_ONLY else dtype
        values = np.full(shape, np.array(np.nan if "float" in dtype else -1).astype(held))
    elif "float" in dtype:
        values = random.standard_normal(shape, np.float32)
    elif parameter.packed is not None:
        values = random.integers(256, size=shape, dtype=np.uint8)
    elif dtype == "bool":
        values = random.random(shape) < 0.5
    else:
        raise ArgumentError(
            f"{task.name}: `{name}` takes integers, and vkernels does not know which are valid: give them with "
            f"`@{kernel_of(task).name}.inputs` above `def inputs(sizes, dtypes, random)`, which returns arrays by name"
        )
    return _laid_out(values, dtype, order)


def only_written(task: Task) -> frozenset[str]:
    """Names of the tensors that the kernel writes and never reads: neither by a load nor by an atomic store."""
    return _only_written(built(task))


def _only_written(kernel: KernelOp) -> frozenset[str]:
    read = {
        op.base.index
        for op in kernel.walk()
        if isinstance(op, AccessOp)
        and isinstance(op.base, BlockArgument)
        and op.base.block is kernel.body.block
        and (not isinstance(op, WriteOp) or op.atomic is not None)
    }
    names = [parameter.data for parameter in kernel.parameters]
    return frozenset(written_tensors(kernel)) - {names[number] for number in read}


# Arrays


def is_array(value: object) -> bool:
    """Whether an argument is a tensor rather than a number."""
    return isinstance(value, np.ndarray) or hasattr(value, "data_ptr")


def copied(value: Array, dtype: str | None = None) -> Array:
    """The same elements in new, aligned memory, with the same order of dimensions; `dtype`: converted to it."""
    if not isinstance(value, np.ndarray):
        return value.clone() if dtype is None else moved(value, getattr(_torch(), dtype))
    order = sorted(range(value.ndim), key=lambda dimension: -abs(value.strides[dimension]))
    array = _aligned(value.shape, value.dtype if dtype is None else np.dtype(dtype), order)
    array[...] = value
    return array


def _laid_out(values: npt.NDArray[Any], dtype: str, order: Sequence[int]) -> Array:
    array = _aligned(values.shape, np.dtype(np.float32 if dtype in TORCH_ONLY else dtype), order)
    with np.errstate(over="ignore", invalid="ignore"):
        array[...] = values
    return moved(array, getattr(_torch(), dtype)) if dtype in TORCH_ONLY else array


def _aligned(shape: Sequence[int], dtype: np.dtype[Any], order: Sequence[int]) -> npt.NDArray[Any]:
    """An uninitialised array at an address that vectors and stores past the caches need. `order`: slowest first."""
    laid = tuple(shape[dimension] for dimension in order)
    count = prod(laid) * dtype.itemsize
    room = np.empty(count + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    return room[start : start + count].view(dtype).reshape(laid).transpose([order.index(n) for n in range(len(order))])


def refill(target: Array, source: Array) -> None:
    """Write the elements of one into the other."""
    if isinstance(target, np.ndarray):
        target[...] = source
    else:
        target.copy_(source)


def moved(value: Array, to: Any) -> Array:
    """A torch tensor of the same layout, on another device or of another dtype."""
    return (_torch().from_numpy(value) if isinstance(value, np.ndarray) else value).to(to)


def numbers(value: Array) -> npt.NDArray[Any]:
    """Elements in NumPy: floats in float64, others unchanged. May be the array itself."""
    if not isinstance(value, np.ndarray):
        value = value.detach().cpu()
        value = (value.double() if value.is_floating_point() else value).numpy()
    return np.asarray(value, np.float64) if value.dtype.kind == "f" else value


def checksum(value: Array) -> int:
    """Detects accidental writes; a cryptographic hash takes five times as long. Computed where the tensor is."""
    if isinstance(value, np.ndarray):
        return crc32(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    if value.device.type == "cpu":
        return checksum(_bytes(value).numpy())
    return checksum_there(value)


def checksum_there(value: torch.Tensor) -> int:
    """Of a torch tensor of any device: sums of its bytes by rows and by columns, each with a weight of its own, so that
    an exchange of two elements is seen."""
    import torch

    if not value.numel():
        return 0
    flat = _bytes(value)
    rows = -(-flat.numel() // COLUMNS)
    if rows * COLUMNS != flat.numel():
        flat = torch.nn.functional.pad(flat, (0, rows * COLUMNS - flat.numel()))
    grid = flat.view(rows, COLUMNS)
    total = 0
    for axis, length in ((1, rows), (0, COLUMNS)):
        sums = grid.sum(axis, dtype=torch.int64)
        total = total * (1 << 61) + int((sums * torch.arange(1, length + 1, device=value.device)).sum())
    return total


def _bytes(value: torch.Tensor) -> torch.Tensor:
    flat = value.detach().contiguous().as_strided((value.numel(),), (1,))  # also where one element has another stride
    return flat.view(_torch().uint8)


def _torch() -> Any:
    import torch

    return torch
