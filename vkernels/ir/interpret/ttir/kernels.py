"""Run all launches of a kernel that has been lowered to TTIR, as a GPU's runtime would."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from ...errors import ArgumentError
from ...lowering.ttir.lowered import LaunchParameter, LoweredTtir, ParameterKind, TtirLaunch
from ...lowering.ttir.state import SLOT_BYTES
from .regions import RuntimeMemory, TensorRegion
from .run import Value, run_ttir

Argument = np.ndarray[Any, Any] | np.generic | int | float | bool


def interpret_ttir(
    lowered: LoweredTtir,
    arguments: Mapping[str, Argument],
    sizes: Mapping[str, int],
    *,
    resident: int = 3,
    order: int | None = None,
    write_only: Collection[str] = (),
) -> None:
    """Run a lowered kernel; it writes into the arrays in place.

    `arguments`: by the parameters' names, arrays of any strides (of bf16: the bits, as uint16) and numbers. `sizes`: of
    the call, by name. `resident`: the most programs of a persistent launch, whose swap space is shared out among them.
    `order` seeds a shuffle of every launch's programs. `write_only`: names of tensors that may not be read before they
    are written. Raises as `run_ttir` does, and `ArgumentError` for an argument or a size that is missing.
    """
    prepared = lowered.prepare(sizes)
    buffers = [RuntimeMemory(f"buffer {number}", size) for number, size in enumerate(prepared.buffer_bytes)]
    for number, (launch, programs) in enumerate(zip(lowered.launches, prepared.programs, strict=True)):
        grid = min(programs, resident) if launch.is_persistent else programs
        swap = RuntimeMemory("swap space", (launch.swap_bytes + prepared.more_swap(number)) * grid)

        def value(parameter: LaunchParameter, programs: int = programs, swap: RuntimeMemory = swap) -> Value:
            match parameter.kind:
                case ParameterKind.BUFFER:
                    return buffers[parameter.number]
                case ParameterKind.SWAP:
                    return swap
                case ParameterKind.PROGRAMS:
                    return programs
                case ParameterKind.SIZE:
                    return sizes[parameter.name]
                case _:
                    return _of_argument(parameter, _named(arguments, parameter.name), write_only)

        _run(launch, grid, [value(parameter) for parameter in launch.parameters], order)


def _run(launch: TtirLaunch, grid: int, values: list[Value], order: int | None) -> None:
    slot_bytes = SLOT_BYTES if launch.scratch_bytes else 0
    run_ttir(launch.module, grid, values, launch.scratch_bytes, order, slot_bytes=slot_bytes)


def _named(arguments: Mapping[str, Argument], name: str) -> Argument:
    if name not in arguments:
        raise ArgumentError(f"no argument for parameter {name}")
    return arguments[name]


def _of_argument(parameter: LaunchParameter, argument: Argument, write_only: Collection[str]) -> Value:
    """A tensor's memory or one of its strides, or a scalar."""
    if parameter.kind == ParameterKind.SCALAR:
        return argument
    if not isinstance(argument, np.ndarray):
        raise ArgumentError(f"argument `{parameter.name}` is a {type(argument).__name__}, expected an array")
    if parameter.kind == ParameterKind.STRIDE:
        return _stride(argument, parameter.number)
    return TensorRegion(argument, parameter.name, parameter.name in write_only)


def _stride(array: np.ndarray[Any, Any], dimension: int) -> int:
    """In elements; 0 where nobody sees it: along a dimension of one element, and in an empty array."""
    seen = array.size and array.shape[dimension] > 1
    return array.strides[dimension] // array.itemsize if seen else 0
