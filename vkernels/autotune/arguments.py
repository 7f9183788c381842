"""Arguments of a task's calls: fresh ones, as a library function or the kernel's author would give them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import BlockArgument

from vkernels.compiler.specialise import kernel_in, written_tensors
from vkernels.inspect.task import Task, kernel_of, memory_order, shape_of, signature_of
from vkernels.ir.dialect import AccessOp, ScatterOp, StoreOp
from vkernels.ir.errors import ArgumentError

if TYPE_CHECKING:
    from vkernels.ir.dialect import KernelOp
    from vkernels.language.annotations import Parameter

Array = Any
"""A NumPy array; a torch tensor of a dtype that NumPy lacks."""
LINE = 64
"""Bytes at a multiple of which an array begins, as torch's do: stores past the caches need that."""


def make_arguments(task: Task, seed: int = 0) -> dict[str, Array | bool | int | float]:
    """Tensors and scalars by name, in the order of the parameters; constants are the task's. The same for a seed.

    Tensors that the kernel only writes are full of NaN, or of -1. Raises `ArgumentError` for integer tensors of a
    user's kernel without `@kernel.inputs`, and where that gives what does not fit.
    """
    kernel, random = kernel_of(task), np.random.default_rng(seed)
    given = _given(task, random)
    numbers = scalars(task, given)
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
    """Scalars by name. `given`: what `@kernel.inputs` made, where that was asked already."""
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


def _given(task: Task, random: np.random.Generator) -> dict[str, Any]:
    """Arguments that are more than normal random numbers: the kernel's samples, or what `@kernel.inputs` gives."""
    kernel = kernel_of(task)
    constants = {p.name: p.default for p in kernel.parameters if p.kind == "constant"} | dict(task.constants)
    return {**kernel.samples.arrays(task.shape, constants, random), **_author_inputs(task, random)}


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
        if values.shape != shape or values.dtype == object:
            raise ArgumentError(
                f"{task.name}: inputs: {name} has shape {values.shape}, expected numbers of shape {shape}"
            )
    elif only_written:
        values = np.full(shape, np.nan if "float" in dtype else -1)
    elif "float" in dtype:
        values = random.standard_normal(shape, np.float32)
    elif dtype == "bool":
        values = random.random(shape) < 0.5
    else:
        raise ArgumentError(
            f"{task.name}: `{name}` takes integers, and which are valid is its author's to say: give them with "
            f"`@{kernel_of(task).name}.inputs` above `def inputs(sizes, dtypes, random)`, that returns arrays by name"
        )
    return _laid_out(values, dtype, order)


def _laid_out(values: np.ndarray[Any, Any], dtype: str, order: tuple[int, ...]) -> Array:
    """Values in a dtype, with dimensions in memory in an order, from the address of a line on."""
    plain = {"bfloat16": np.float32, "float8_e4m3fn": np.float32, "float8_e5m2": np.float32, "bool": np.bool_}
    held = np.dtype(plain.get(dtype, dtype))
    shape = tuple(values.shape[dimension] for dimension in order)
    room = np.empty(prod(shape) * held.itemsize + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    array = room[start : start + prod(shape) * held.itemsize].view(held).reshape(shape)
    inverse = tuple(int(at) for at in np.argsort(order))
    seen = array.transpose(inverse) if order else array
    with np.errstate(over="ignore", invalid="ignore"):
        seen[...] = values
    if dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        import torch

        return torch.from_numpy(array).to(getattr(torch, dtype)).permute(inverse)
    return seen


def only_written(task: Task) -> frozenset[str]:
    """Names of the tensors of which the kernel reads nothing: not by a load, not by an atomic store."""
    return _only_written(built(task))


def _only_written(kernel: KernelOp) -> frozenset[str]:
    read = {
        op.base.index
        for op in kernel.walk()
        if isinstance(op, AccessOp)
        and isinstance(op.base, BlockArgument)
        and op.base.block is kernel.body.block
        and (not isinstance(op, StoreOp | ScatterOp) or op.atomic is not None)
    }
    names = [parameter.data for parameter in kernel.parameters]
    return frozenset(written_tensors(kernel)) - {names[number] for number in read}
