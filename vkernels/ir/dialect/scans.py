"""Scans by a function of two elements, and the last element along an axis."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr, TensorType
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import VerifyException

from .attributes import element_of, sizes_of
from .compute import PureOp, ScanOp, verify_axis, without_axis


@irdl_op_definition
class CombinedOp(IRDLOperation):
    """End the body of a `vk.scan_by` with the element that two elements combine to."""

    name = "vk.combined"

    values = var_operand_def()

    traits = traits_def(IsTerminator())
    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, values: Sequence[SSAValue]):
        super().__init__(operands=[values])


@irdl_op_definition
class ScanByOp(PureOp):
    """Inclusive scan of tuples along an axis: each element combined by `body` with all before it.

    An element has a scalar of each of the `tiles`, which have the same axes. `body` takes the scalars of two elements,
    the earlier first, and gives those of one. It is associative, uses nothing else, and has no effect. `initial`: the
    scalars of an element that `body` may be given before the first one without changing the result; a pass that splits
    the axis into chunks begins with it. Mapped kernels have none.
    """

    name = "vk.scan_by"

    tiles = var_operand_def(TensorType)
    initial = var_operand_def()
    axis = prop_def(StringAttr)
    results_ = var_result_def(TensorType)
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$tiles `along` custom<Name>($axis) (`from` $initial^ `:` type($initial))? "
        "`:` type($tiles) `->` type($results_) attr-dict `by` $body"
    )

    def __init__(self, tiles: Sequence[SSAValue], initial: Sequence[SSAValue], axis: str, body: Region):
        super().__init__(
            operands=[tiles, initial],
            properties={"axis": StringAttr(axis)},
            result_types=[[tile.type for tile in tiles]],
            regions=[body],
        )

    def verify_(self) -> None:
        elements = [element_of(tile) for tile in self.tiles]
        for tile in self.tiles:
            verify_axis(self.axis, tile, "each tile's")
            if sizes_of(tile) != sizes_of(self.tiles[0]):
                raise VerifyException("the tiles have different axes or sizes")
        if list(self.results_.types) != list(self.tiles.types):
            raise VerifyException("the results are not of the tiles' types")
        if self.initial and list(self.initial.types) != elements:
            raise VerifyException("the initial element is not of the tiles' element types")
        last = self.body.block.last_op
        if not isinstance(last, CombinedOp) or list(last.values.types) != elements:
            raise VerifyException("the body does not end with a vk.combined of one element")
        if list(self.body.block.arg_types) != elements * 2:
            raise VerifyException("the body does not take two elements")


@irdl_op_definition
class LastOp(PureOp):
    """The last element of a tile along an axis, which the result lacks. Mapped kernels only."""

    name = "vk.last"

    tile = operand_def(TensorType)
    axis = prop_def(StringAttr)
    result = result_def()

    assembly_format = "$tile `along` custom<Name>($axis) attr-dict `:` type($tile) `->` type($result)"

    def __init__(self, tile: SSAValue, axis: str):
        result = without_axis(tile, axis)
        super().__init__(operands=[tile], properties={"axis": StringAttr(axis)}, result_types=[result])

    def verify_(self) -> None:
        verify_axis(self.axis, self.tile, "the tile's")
        if self.result.type != without_axis(self.tile, self.axis.data):
            raise VerifyException(f"the result is {self.result.type}")


SCANS: tuple[type[ScanOp], type[ScanByOp]] = (ScanOp, ScanByOp)


def scanned_tiles(op: Operation) -> Sequence[SSAValue]:
    """The tiles that a scan is of."""
    return op.tiles if isinstance(op, ScanByOp) else op.operands


def body_operations(op: ScanByOp) -> list[Operation]:
    """What combines two elements, without the end."""
    return [inner for inner in op.body.block.ops if not isinstance(inner, CombinedOp)]


def scans_along(op: Operation, axis: str) -> bool:
    """Whether an operation is a scan along an axis."""
    return isinstance(op, ScanOp | ScanByOp) and op.axis.data == axis
