"""Block-scaled formats: numbers decoded from bytes, and the dot of scaled operands that tensor cores have."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import Float8E4M3FNType, Float8E5M2Type, StringAttr, TensorType, f32, i8
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AnyAttr, VarConstraint, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from .assembly import listed
from .attributes import axes_of, element_of, size_text, sizes_of, tile_type
from .compute import PureOp, verify_axis, verify_contraction

FLOAT8 = (Float8E4M3FNType, Float8E5M2Type)


@irdl_op_definition
class DecodeOp(PureOp):
    """Numbers that bytes hold, as f32: `e8m0`, two to the power of the unsigned byte - 127, NaN for 255; `e2m1_low` and
    `e2m1_high`, the E2M1 in one half of each byte."""

    name = "vk.decode"

    FORMATS: ClassVar[tuple[str, ...]] = ("e8m0", "e2m1_low", "e2m1_high")

    format = prop_def(StringAttr)
    bytes = operand_def()
    result = result_def()

    assembly_format = "custom<Name>($format) $bytes attr-dict `:` type($bytes) `->` type($result)"

    def __init__(self, bytes: SSAValue, format: str):
        sizes = sizes_of(bytes)
        result = tile_type(f32, sizes, sizes.values()) if sizes else f32
        super().__init__(operands=[bytes], properties={"format": StringAttr(format)}, result_types=[result])

    def verify_(self) -> None:
        if self.format.data not in self.FORMATS:
            raise VerifyException(f'format "{self.format.data}" is not one of {listed(self.FORMATS)}')
        if element_of(self.bytes) != i8 or element_of(self.result) != f32:
            raise VerifyException(f"{self.bytes.type} becomes {self.result.type}, expected i8 and f32")
        if sizes_of(self.bytes) != sizes_of(self.result):
            raise VerifyException(f"{self.bytes.type} and {self.result.type} have other axes or sizes")


@irdl_op_definition
class RepeatOp(PureOp):
    """A tile with the axis `to` in place of `blocks`: as many neighbouring positions as there are to a block have the
    element of that block. Mapped kernels for GPUs only."""

    name = "vk.repeat"

    tile = operand_def(TensorType)
    blocks = prop_def(StringAttr)
    to = prop_def(StringAttr)
    result = result_def(TensorType)

    assembly_format = (
        "$tile `along` custom<Name>($blocks) `to` custom<Name>($to) attr-dict `:` type($tile) `->` type($result)"
    )

    def __init__(self, tile: SSAValue, blocks: str, to: str, size: int):
        """`size`: positions along `to`."""
        sizes = {to if axis == blocks else axis: size if axis == blocks else n for axis, n in sizes_of(tile).items()}
        super().__init__(
            operands=[tile],
            properties={"blocks": StringAttr(blocks), "to": StringAttr(to)},
            result_types=[tile_type(element_of(tile), sizes, sizes.values())],
        )

    def verify_(self) -> None:
        verify_axis(self.blocks, self.tile, "the tile's")
        verify_axis(self.to, self.result, "the result's")
        before, after = sizes_of(self.tile), sizes_of(self.result)
        blocks, positions = before.pop(self.blocks.data), after.pop(self.to.data)
        if before != after or element_of(self.tile) != element_of(self.result):
            raise VerifyException(
                f"{self.tile.type} becomes {self.result.type}, expected other sizes in one axis alone"
            )
        if blocks < 1 or positions < 0 or positions % blocks:
            raise VerifyException(f"{size_text(positions)} positions are not {size_text(blocks)} blocks")


def elements_of_a_position(element: Attribute) -> int:
    """Numbers at a position of a scaled operand: two E2M1 in a byte, else one."""
    return 2 if element == i8 else 1


@irdl_op_definition
class ScaledDotOp(PureOp):
    """Products of `left` and `right`, each element times its block's scale, summed along an axis, added to `sum`.

    Operands are f8, or i8 with two E2M1 each, the first in the lower half. Their scales have the axis `blocks` in place
    of the contracted one, and of these as many times fewer positions as a block has: i8 are E8M0, f8E4M3FN numbers.
    A product is rounded nowhere; scales of an operand and of the other may be applied together or one after another.
    Mapped kernels for GPUs only.
    """

    name = "vk.scaled_dot"

    T: ClassVar = VarConstraint("T", AnyAttr())

    left = operand_def(TensorType)
    left_scale = operand_def(TensorType)
    right = operand_def(TensorType)
    right_scale = operand_def(TensorType)
    sum = operand_def(T)
    axis = prop_def(StringAttr)
    blocks = prop_def(StringAttr)
    result = result_def(T)

    assembly_format = (
        "$left `by` $left_scale `,` $right `by` $right_scale `,` $sum `along` custom<Name>($axis) "
        "`in` custom<Name>($blocks) attr-dict "
        "`:` type($left) `,` type($left_scale) `,` type($right) `,` type($right_scale) `,` type($sum)"
    )

    def __init__(
        self,
        left: tuple[SSAValue, SSAValue],
        right: tuple[SSAValue, SSAValue],
        sum: SSAValue,
        axis: str,
        blocks: str,
    ):
        """`left`, `right`: each an operand and its scales."""
        super().__init__(
            operands=[*left, *right, sum],
            properties={"axis": StringAttr(axis), "blocks": StringAttr(blocks)},
            result_types=[sum.type],
        )

    @property
    def block(self) -> int:
        """Elements that share a scale."""
        positions = sizes_of(self.left)[self.axis.data] // sizes_of(self.left_scale)[self.blocks.data]
        return positions * elements_of_a_position(element_of(self.left))

    def verify_(self) -> None:
        verify_contraction(self.left, self.right, self.sum, self.axis)
        if element_of(self.sum) != f32:
            raise VerifyException(f"the sum has elements of {element_of(self.sum)}, expected f32")
        for operand, scale in ((self.left, self.left_scale), (self.right, self.right_scale)):
            if element_of(operand) != i8 and not isinstance(element_of(operand), FLOAT8):
                raise VerifyException(f"operands are f8 or i8, not {element_of(operand)}")
            if element_of(scale) != i8 and not isinstance(element_of(scale), Float8E4M3FNType):
                raise VerifyException(f"scales are i8 or f8E4M3FN, not {element_of(scale)}")
            self._verify_scale(operand, scale)

    def _verify_scale(self, operand: SSAValue, scale: SSAValue) -> None:
        axis, blocks = self.axis.data, self.blocks.data
        verify_axis(self.blocks, scale, "the scale's")
        expected, found = sizes_of(operand), sizes_of(scale)
        positions, count = expected.pop(axis), found.pop(blocks)
        if blocks in axes_of(operand) or expected != found:
            raise VerifyException(f"the scale is {scale.type}, expected {operand.type} with {blocks} instead of {axis}")
        if positions < 0 or count < 1 or positions % count:
            raise VerifyException(f"{size_text(positions)} positions along {axis} are not {size_text(count)} blocks")


__all__ = ["DecodeOp", "RepeatOp", "ScaledDotOp", "elements_of_a_position"]
