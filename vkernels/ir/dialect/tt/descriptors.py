"""Tensor descriptors: boxes of a tensor that a GPU's copy unit loads and stores, with bounds and strides of its own."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    SameVariadicOperandSize,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from .types import PointerType, PureTtOp, TtOp, shape


@irdl_attr_definition
class TensorDescriptorType(ParametrizedAttribute, TypeAttribute):
    """A descriptor of boxes of one type: `!tt.tensordesc<tensor<128x64xf16>>`, which is how Triton 3.6 spells it."""

    name = "tt.tensordesc"

    block: TensorType


def _block(descriptor: SSAValue) -> TensorType:
    if not isinstance(descriptor.type, TensorDescriptorType):
        raise VerifyException(f"{descriptor.type} is not a tensor descriptor")
    return descriptor.type.block


@irdl_op_definition
class MakeTensorDescriptorOp(PureTtOp):
    """A descriptor of a tensor in global memory: its sizes, i32, and strides in elements, i64, of each dimension.

    The last stride is 1; the base and all other strides are multiples of 16 bytes. Triton writes the descriptor to
    scratch memory of the program.
    """

    name = "tt.make_tensor_descriptor"
    base = operand_def()
    shape_ = var_operand_def()
    strides = var_operand_def()
    irdl_options = (SameVariadicOperandSize(),)

    def __init__(self, base: SSAValue, sizes: Sequence[SSAValue], strides: Sequence[SSAValue], box: Sequence[int]):
        if not isinstance(base.type, PointerType):
            raise VerifyException(f"a descriptor of {base.type}, expected a pointer")
        block = TensorType(base.type.pointee, list(box))
        super().__init__(operands=[base, sizes, strides], result_types=[TensorDescriptorType(block)])

    def verify_(self) -> None:
        super().verify_()
        if len(self.shape_) != len(shape(_block(self.result))):
            raise VerifyException(f"{len(self.shape_)} sizes for a descriptor of {_block(self.result)}")


@irdl_op_definition
class DescriptorLoadOp(TtOp):
    """The box that begins at these indices, i32; 0 for elements outside of the tensor."""

    name = "tt.descriptor_load"
    desc = operand_def()
    indices = var_operand_def()
    result = result_def()
    traits = traits_def(MemoryReadEffect())

    def __init__(self, descriptor: SSAValue, indices: Sequence[SSAValue]):
        super().__init__(operands=[descriptor, indices], result_types=[_block(descriptor)])


@irdl_op_definition
class DescriptorStoreOp(TtOp):
    """A tile to the box that begins at these indices, i32; elements outside of the tensor are not stored."""

    name = "tt.descriptor_store"
    desc = operand_def()
    src = operand_def()
    indices = var_operand_def()
    traits = traits_def(MemoryWriteEffect())

    def __init__(self, descriptor: SSAValue, value: SSAValue, indices: Sequence[SSAValue]):
        super().__init__(operands=[descriptor, value, indices])
