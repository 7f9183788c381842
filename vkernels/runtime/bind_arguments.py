"""Bind the values of a call to the parameters of a kernel, and check that they go together."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from vkernels.compiler.arguments import Arguments, ArrayView, Scalar, scalar_kind
from vkernels.compiler.protocols import Constant, KernelLike, ParameterLike, packed_sizes, size_name
from vkernels.ir.errors import ArgumentError
from vkernels.ir.numpy_numbers import as_python

from .arrays import PARTS, as_parts, is_plain, is_torch, kind_of, view_of

_PYTHON_KINDS = {"f64": "float", "i64": "int", "i1": "bool"}


def in_order(
    kernel: KernelLike, args: Sequence[Any], kwargs: Mapping[str, Any], leave_open: bool = False
) -> tuple[Any, ...]:
    """The value of every parameter in the author's order, with defaults. `leave_open`: give the tunable itself for a
    tunable constant that is not given.

    Raises `ArgumentError` for too many, missing, unknown or doubly given arguments.
    """
    parameters = kernel.parameters
    if len(args) > len(parameters):
        raise ArgumentError(f"{kernel.name}: expected at most {len(parameters)} arguments, got {len(args)}")
    names = [parameter.name for parameter in parameters]
    for name in kwargs:
        if name not in names:
            raise ArgumentError(f"{kernel.name}: no argument `{name}`; it has {', '.join(names)}")
        if name in names[: len(args)]:
            raise ArgumentError(f"{kernel.name}: argument `{name}` is given twice")
    values = list(args)
    for parameter in parameters[len(args) :]:
        if parameter.name in kwargs:
            values.append(kwargs[parameter.name])
        elif leave_open and parameter.tunable is not None:
            values.append(parameter.tunable)
        elif parameter.default is not inspect.Parameter.empty:
            values.append(parameter.default)
        else:
            raise ArgumentError(f"{kernel.name}: argument `{parameter.name}` is missing")
    return tuple(values)


def bind(kernel: KernelLike, values: Sequence[Any]) -> Arguments:
    """Check the values of all parameters, in order. Raises `ArgumentError`: kernel, argument, expected and got."""
    tensors: dict[str, ArrayView] = {}
    scalars: dict[str, Scalar] = {}
    constants: dict[str, Constant] = {}
    for parameter, value in zip(kernel.parameters, values, strict=True):
        what = f"{kernel.name}: argument `{parameter.name}`"
        if parameter.kind == "tensor":
            tensors[parameter.name] = _tensor(parameter, value, what)
        elif parameter.kind == "scalar":
            scalars[parameter.name] = _scalar(parameter, value, what)
        else:
            constants[parameter.name] = _constant(value, what)
    _check_devices(kernel, tensors)
    return Arguments(tensors, scalars, constants, _sizes(kernel, tensors))


def _tensor(parameter: ParameterLike, value: Any, what: str) -> ArrayView:
    view = view_of(value, what)
    pairs = [name for name, part in PARTS.items() if part in parameter.dtypes and parameter.dimensions[-1:] == (2,)]
    if view.dtype in pairs:
        view = as_parts(view)
    if view.dtype not in parameter.dtypes:
        raise ArgumentError(f"{what}: expected dtype {_one_of([*parameter.dtypes, *pairs])}, got {view.dtype}")
    if len(view.shape) != len(parameter.dimensions):
        declared = ", ".join(map(str, parameter.dimensions))
        also = f" of {_one_of(parameter.dtypes)}, or {_one_of(pairs)}" if pairs else ""
        raise ArgumentError(
            f"{what}: expected {_dimensions(len(parameter.dimensions))} [{declared}]{also}, "
            f"got {_dimensions(len(view.shape))} {list(view.shape)}"
        )
    return view


def _check_devices(kernel: KernelLike, tensors: Mapping[str, ArrayView]) -> None:
    for name, view in tensors.items():
        first, expected = next((other, each.device) for other, each in tensors.items())
        if view.device != expected:
            raise ArgumentError(
                f"{kernel.name}: argument `{name}`: expected a tensor on device {expected}, as `{first}`, "
                f"got {view.device}"
            )


def _scalar(parameter: ParameterLike, value: Any, what: str) -> Scalar:
    number = as_scalar(value, what)
    if scalar_kind(number) == "i64" and "i64" not in parameter.dtypes and "f64" in parameter.dtypes:
        number = float(number)  # a whole number for a `float`, as in Python
    if scalar_kind(number) not in parameter.dtypes:
        expected = _one_of([_PYTHON_KINDS[kind] for kind in parameter.dtypes])
        raise ArgumentError(f"{what}: expected {expected}, got {kind_of(number)}")
    return number


def _dimensions(rank: int) -> str:
    return f"{rank} dimension" if rank == 1 else f"{rank} dimensions"


def _one_of(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def _sizes(kernel: KernelLike, tensors: Mapping[str, ArrayView]) -> dict[str, int]:
    """Sizes by name. Tensors that share a name must agree, and a declared number must be the dimension's length."""
    sizes: dict[str, int] = {}
    origin: dict[str, str] = {}
    for parameter in kernel.parameters:
        if parameter.kind != "tensor":
            continue
        shape = tensors[parameter.name].shape
        what = f"{kernel.name}: argument `{parameter.name}`"
        for number, (dimension, length) in enumerate(zip(parameter.dimensions, shape, strict=True)):
            declared = size_name(parameter.name, number, dimension)
            if isinstance(declared, int):
                if length != declared:
                    raise ArgumentError(f"{what}: expected dimension {number} to be {declared}, got {length}")
            elif sizes.setdefault(declared, length) != length:
                expected = f"{sizes[declared]}, as in `{origin[declared]}`"
                raise ArgumentError(f"{what}: expected size {declared} to be {expected}, got {length}")
            else:
                origin.setdefault(declared, parameter.name)
    for name, values in packed_sizes(sizes):
        if values in sizes and sizes[name] != (needed := (sizes[values] + 1) // 2):
            raise ArgumentError(
                f"{kernel.name}: argument `{origin[name]}`: expected {needed} bytes in the last dimension "
                f"for {values}={sizes[values]}, as in `{origin[values]}`, two values in each; got {sizes[name]}"
            )
    return sizes


def as_scalar(value: Any, what: str) -> Scalar:
    """A Python number from a Python or NumPy number or a tensor of one element without dimensions.

    Raises `ArgumentError` for anything else, and for integers beyond 64 bits.
    """
    number: bool | int | float | None = value if isinstance(value, bool | int | float) else _only_element(value)
    if not isinstance(number, bool | int | float):
        raise ArgumentError(f"{what}: expected a number, got {kind_of(value)}")
    if isinstance(number, int) and not -(1 << 63) <= number < 1 << 63:
        bits = number.bit_length()
        raise ArgumentError(f"{what}: expected an integer of 64 bits, got {number if bits < 200 else f'{bits} bits'}")
    return number


def _only_element(value: Any) -> Any:
    """The element of a NumPy number, or of a tensor or plain array without dimensions; None for anything else."""
    if isinstance(value, np.ndarray) and not is_plain(value):
        return None
    if not (isinstance(value, np.generic | np.ndarray) or is_torch(value)):
        return None
    try:
        return value.item() if value.ndim == 0 else None
    except (RuntimeError, NotImplementedError):  # torch's, of tensors without memory
        return None


def _constant(value: Any, what: str) -> Constant:
    value = as_python(value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ArgumentError(f"{what}: expected a constant (a number, text or None), got {kind_of(value)}")
