"""Pointers, the tensors that Triton can have, and the base classes of the operations on them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

MOST_ELEMENTS = 1 << 20
"""Elements that a Triton tensor may have."""


@irdl_attr_definition
class PointerType(ParametrizedAttribute, TypeAttribute):
    """A pointer to elements in global memory: `!tt.ptr<f32>`."""

    name = "tt.ptr"

    pointee: Attribute


def element(type_: Attribute) -> Attribute:
    """A tensor's element type; any other type itself."""
    return type_.element_type if isinstance(type_, TensorType) else type_


def shape(type_: Attribute) -> tuple[int, ...]:
    """A tensor's sizes; none for a scalar."""
    return type_.get_shape() if isinstance(type_, TensorType) else ()


def tensor(element_: Attribute, sizes: Sequence[int]) -> Attribute:
    """A tensor type of these sizes; the element itself where there are none."""
    return TensorType(element_, list(sizes)) if sizes else element_


def verify_tensor(type_: Attribute) -> None:
    """Raise `VerifyException` for a tensor that Triton cannot have."""
    for size in shape(type_):
        if size < 1 or size & (size - 1):
            raise VerifyException(f"{type_} has a size of {size}, expected a power of two")
    total = prod(shape(type_))
    if total > MOST_ELEMENTS:
        raise VerifyException(f"{type_} has {total} elements, more than {MOST_ELEMENTS}")


class TtOp(IRDLOperation):
    """An operation on tensors that Triton can have."""

    def verify_(self) -> None:
        for type_ in (*self.operand_types, *self.result_types):
            verify_tensor(type_)


class PureTtOp(TtOp):
    """An operation without effects and with one result."""

    result = result_def()
    traits = traits_def(Pure())


class ElementwiseOp(PureTtOp):
    """An operation whose result has the type of its first operand."""

    def __init__(self, *operands: SSAValue):
        super().__init__(operands=operands, result_types=[operands[0].type])
