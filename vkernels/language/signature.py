"""Signatures written by hand: what a kernel is specialised on, by parameter."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from vkernels.ir.errors import ArgumentError
from vkernels.runtime.protocols import Signature
from vkernels.runtime.usual import usual_dtype

from .dtypes import DType

if TYPE_CHECKING:
    from .kernel import Kernel

_KINDS = {float: "f64", int: "i64", bool: "i1"}


def make_signature(kernel: Kernel, given: dict[str, Any]) -> Signature:
    """A signature from a dtype (or its name) a tensor, a Python type (or f64, i64, i1) a scalar, a value a constant."""
    names = [parameter.name for parameter in kernel.parameters]
    for name in given:
        if name not in names:
            close = get_close_matches(name, names, 1)
            meant = f" Did you mean `{close[0]}`?" if close else ""
            raise ArgumentError(f"{kernel.name} has no parameter `{name}`.{meant}")
    by_kind: dict[str, list[tuple[str, Any]]] = {"tensor": [], "scalar": [], "constant": []}
    for parameter in kernel.parameters:
        if parameter.name in given:
            value = given[parameter.name]
            value = value.name if isinstance(value, DType) and parameter.kind == "tensor" else value
            value = _KINDS.get(value, value) if isinstance(value, type) and parameter.kind == "scalar" else value
            by_kind[parameter.kind].append((parameter.name, value))
        elif parameter.kind == "scalar" and parameter.default is not parameter.MISSING:
            by_kind["scalar"].append((parameter.name, _KINDS[type(parameter.default)]))
        elif parameter.kind == "constant" and parameter.default is not parameter.MISSING:
            by_kind["constant"].append((parameter.name, parameter.default))
    return Signature(tuple(by_kind["tensor"]), tuple(by_kind["scalar"]), tuple(by_kind["constant"]))


def with_dtype(kernel: Kernel, dtype: DType | str | None, given: dict[str, Any]) -> dict[str, Any]:
    """What is given by parameter, and for other tensors one dtype where they can have it, else what they usually have.

    Raises `ArgumentError` for a dtype that no tensor can have.
    """
    name = dtype.name if isinstance(dtype, DType) else dtype
    tensors = [parameter for parameter in kernel.parameters if parameter.kind == "tensor"]
    if name is not None and not any(name in tensor.dtypes for tensor in tensors):
        takes = "; ".join(f"{tensor.name} takes {', '.join(tensor.dtypes)}" for tensor in tensors)
        raise ArgumentError(f"{kernel.name}: no tensor can be {name!r}: {takes}")
    found = {}
    for tensor in tensors:
        found[tensor.name] = usual_dtype(tensor.dtypes, name)
    return {**found, **given}
