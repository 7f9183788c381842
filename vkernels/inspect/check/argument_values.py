"""The values of a plain Triton kernel's parameters in TTIR, of its author's arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.ir import Attribute

from vkernels.ir.analysis.descriptors import MOST_POSITIONS
from vkernels.ir.dialect import tt
from vkernels.ir.errors import ArgumentError, UnsupportedError
from vkernels.ir.interpret.numbers import storage_of
from vkernels.ir.interpret.ttir import DescribedTensor, TensorRegion, Value
from vkernels.runtime.interpret import memory_of


def values_of(arguments: Mapping[str, Any], types: Sequence[Attribute]) -> list[Value]:
    """The values of TTIR's parameters, which have these types. `arguments`: by name, in their order.

    A tensor descriptor is followed by its sizes and strides. Raises `ArgumentError` for what does not fit, and
    `UnsupportedError` for descriptors of boxes that are copied in parts.
    """
    values: list[Value] = []
    for name, value in arguments.items():
        type_ = types[len(values)]
        if isinstance(type_, tt.TensorDescriptorType):
            values += _described(name, value, type_)
        else:
            values.append(_value(name, value, type_))
    return values


def _value(name: str, value: Any, type_: Attribute) -> Value:
    if isinstance(type_, tt.PointerType):
        return TensorRegion(_memory(name, value, type_.pointee), name)
    if getattr(value, "ndim", 0):
        raise ArgumentError(f"argument `{name}`: expected a number, got an array of shape {list(value.shape)}")
    number: Value = value
    return number


def _memory(name: str, value: Any, element: Attribute) -> np.ndarray[Any, Any]:
    array, wanted = memory_of(value), storage_of(element)
    if array.dtype.itemsize != wanted.itemsize or array.dtype.kind.replace("b", "i") != wanted.kind.replace("b", "i"):
        raise ArgumentError(f"argument `{name}`: expected elements {element}, got {array.dtype}")
    return array


def _described(name: str, value: Any, type_: tt.TensorDescriptorType) -> Iterator[Value]:
    """The values for a descriptor of Triton's (`TensorDescriptor`), or for a whole tensor that one is made of."""
    box, base = type_.block.get_shape(), getattr(value, "base", None)
    if hasattr(value, "block_shape"):
        if tuple(value.block_shape) != box:
            raise ArgumentError(f"argument `{name}`: expected boxes of {list(box)}, got {list(value.block_shape)}")
        if getattr(value, "padding", "zero") != "zero":
            raise UnsupportedError(f"`{name}`: descriptors with a padding are not interpreted")
        array, sizes, strides = _memory(name, base, type_.block.element_type), value.shape, value.strides
    else:
        array = _memory(name, value, type_.block.element_type)
        sizes, strides = array.shape, [stride // array.itemsize for stride in array.strides]
    if len(sizes) != len(box):
        raise ArgumentError(f"argument `{name}`: expected {len(box)} dimensions, got {len(sizes)}")
    if max(box) > MOST_POSITIONS:
        raise UnsupportedError(f"`{name}`: boxes of more than {MOST_POSITIONS} positions are not interpreted")
    sizes, strides = tuple(map(int, sizes)), tuple(map(int, strides))
    yield DescribedTensor(TensorRegion(array, name), sizes, strides)
    yield from sizes
    yield from strides
