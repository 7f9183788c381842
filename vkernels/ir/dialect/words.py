"""Operations on words: neighbouring narrow elements as 32 bits, as the dot units of CPUs take them."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import BFloat16Type, IntegerType, StringAttr, TensorType, f32, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AnyAttr, VarConstraint, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from .assembly import listed
from .attributes import element_of, size_text, sizes_of, tile_type
from .compute import PureOp, verify_axis, verify_contraction

KINDS = {"s8s8": (4, i32), "u8s8": (4, i32), "bf16": (2, f32)}
"""How a dot reads its words: elements of a word, and the element type of the sum."""


def depth_of(element: Attribute) -> int | None:
    """Elements of a word; None for elements that are not joined to words."""
    if isinstance(element, BFloat16Type):
        return 2
    return 4 if isinstance(element, IntegerType) and element.width.data == 8 else None


@irdl_op_definition
class WordsOp(PureOp):
    """Neighbouring elements along `axis`, i8 or bf16, joined to words of 32 bits, the first in the lowest bits.

    The result has the same axes, a fourth or half as many positions along `axis`, and elements of i32.
    """

    name = "vk.words"

    tile = operand_def(TensorType)
    axis = prop_def(StringAttr)
    result = result_def(TensorType)

    assembly_format = "$tile `along` custom<Name>($axis) attr-dict `:` type($tile) `->` type($result)"

    def __init__(self, tile: SSAValue, axis: str):
        depth = depth_of(element_of(tile)) or 1
        sizes = {each: size // depth if each == axis else size for each, size in sizes_of(tile).items()}
        super().__init__(
            operands=[tile],
            properties={"axis": StringAttr(axis)},
            result_types=[tile_type(i32, sizes, sizes.values())],
        )

    def verify_(self) -> None:
        verify_axis(self.axis, self.tile, "the tile's")
        depth = depth_of(element_of(self.tile))
        if depth is None:
            raise VerifyException(f"elements are {element_of(self.tile)}, expected i8 or bf16")
        sizes = sizes_of(self.tile)
        if sizes[self.axis.data] < 0 or sizes[self.axis.data] % depth:
            raise VerifyException(
                f"axis {self.axis.data} has size {size_text(sizes[self.axis.data])}, expected a multiple of {depth}"
            )
        sizes[self.axis.data] //= depth
        if self.result.type != tile_type(i32, sizes, sizes.values()):
            raise VerifyException(f"the result is {self.result.type}, expected i32 and a part of {self.axis.data}")


@irdl_op_definition
class WordDotOp(PureOp):
    """Products of the elements of words, summed along an axis that both have and within words, added to `sum`.

    `kind` says what the words hold: `s8s8` and `u8s8` four integers each (in `left` signed or unsigned, in `right`
    signed) with a sum of i32, exact modulo 2^32; `bf16` two bf16 each with a sum of f32. For bf16, positions are added
    in order, the second element of a word before the first, each product rounded into the sum; operands, products and
    sums below 2^-126 are 0. The result's axes are all the others of both.
    """

    name = "vk.word_dot"

    T: ClassVar = VarConstraint("T", AnyAttr())

    left = operand_def(TensorType)
    right = operand_def(TensorType)
    sum = operand_def(T)
    axis = prop_def(StringAttr)
    kind = prop_def(StringAttr)
    result = result_def(T)

    assembly_format = (
        "$left `,` $right `,` $sum `along` custom<Name>($axis) `of` custom<Name>($kind) attr-dict "
        "`:` type($left) `,` type($right) `,` type($sum)"
    )

    def __init__(self, left: SSAValue, right: SSAValue, sum: SSAValue, axis: str, kind: str):
        super().__init__(
            operands=[left, right, sum],
            properties={"axis": StringAttr(axis), "kind": StringAttr(kind)},
            result_types=[sum.type],
        )

    @property
    def depth(self) -> int:
        """Elements of a word."""
        return KINDS[self.kind.data][0]

    def verify_(self) -> None:
        if self.kind.data not in KINDS:
            raise VerifyException(f'kind "{self.kind.data}" is not one of {listed([*KINDS])}')
        if any(element_of(value) != i32 for value in (self.left, self.right)):
            raise VerifyException(f"words are i32, not {element_of(self.left)} and {element_of(self.right)}")
        expected = KINDS[self.kind.data][1]
        if element_of(self.sum) != expected:
            raise VerifyException(f"the sum has elements of {element_of(self.sum)}, expected {expected}")
        verify_contraction(self.left, self.right, self.sum, self.axis)


__all__ = ["KINDS", "WordDotOp", "WordsOp", "depth_of"]
