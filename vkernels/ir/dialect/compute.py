"""Operations on tiles beyond upstream arith and math: broadcasts, reductions, scans, dots, spills; and checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import AnyFloat, DenseArrayBase, IntegerType, StringAttr, TensorType, UnitAttr, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    BaseAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    opt_attr_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from .assembly import Below, Name, listed
from .attributes import axes_of, element_of, size_text, sizes_of, tile_type
from .types import SpilledType


def verify_axis(axis: StringAttr, tile: SSAValue, what: str) -> None:
    """Raise `VerifyException` where a tile lacks an axis."""
    if axis.data not in axes_of(tile):
        raise VerifyException(f"axis {axis.data} is not one of {what}: {listed(axes_of(tile))}")


def verify_contraction(left: SSAValue, right: SSAValue, sum: SSAValue, axis: StringAttr) -> None:
    """Raise `VerifyException` where operands lack the contracted axis or disagree on sizes, or the sum's axes are
    not all the others."""
    verify_axis(axis, left, "the left operand's")
    verify_axis(axis, right, "the right operand's")
    sizes, others = sizes_of(left), sizes_of(right)
    for shared in sizes.keys() & others.keys():
        if sizes[shared] != others[shared]:
            shown, other = size_text(sizes[shared]), size_text(others[shared])
            raise VerifyException(f"axis {shared} has size {shown} left and {other} right")
    sizes.update(others)
    del sizes[axis.data]
    if sizes_of(sum) != sizes:
        expected = ", ".join(f"{axis} of {size_text(size)}" for axis, size in sizes.items()) or "none"
        raise VerifyException(f"the sum is {sum.type}, expected axes {expected}")


def verify_unsigned(what: str, kind: str, tile: SSAValue) -> None:
    """Raise `VerifyException` where a combination of unsigned integers is given floats."""
    if kind.endswith("ui") and not isinstance(element_of(tile), IntegerType):
        raise VerifyException(f"{what} is of integers, not {tile.type}")


def without_axis(tile: SSAValue, axis: str) -> Attribute:
    """The type of a tile without an axis."""
    sizes = {a: n for a, n in sizes_of(tile).items() if a != axis}
    return tile_type(element_of(tile), sizes, sizes.values())


class PureOp(IRDLOperation):
    """An operation without effects, whose assembly may spell names."""

    traits = traits_def(Pure())
    custom_directives = (Name, Below)


@irdl_op_definition
class BroadcastOp(PureOp):
    """A scalar or tile repeated along the axes it lacks; axes are matched by name, so their order may change too."""

    name = "vk.broadcast"

    source = operand_def()
    result = result_def(TensorType)

    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, result: Attribute):
        super().__init__(operands=[source], result_types=[result])

    def verify_(self) -> None:
        if element_of(self.source) != element_of(self.result):
            raise VerifyException(f"elements of {element_of(self.source)} become {element_of(self.result)}")
        sizes = sizes_of(self.result)
        for axis, size in sizes_of(self.source).items():
            if axis not in sizes:
                raise VerifyException(f"axis {axis} of the source is not one of the result's: {listed(tuple(sizes))}")
            if size != sizes[axis]:
                shown, expected = size_text(size), size_text(sizes[axis])
                raise VerifyException(f"axis {axis} has size {shown} in the source and {expected} in the result")


class _PositionsOp(PureOp):
    """A tile with one axis alone, of an element for each position."""

    ELEMENT: ClassVar[IntegerType]

    axis = prop_def(StringAttr)
    result = result_def(TensorType)

    def __init__(self, axis: str, operands: Sequence[SSAValue], size: int | None):
        result = tile_type(self.ELEMENT, [axis], None if size is None else [size])
        super().__init__(operands=operands, properties={"axis": StringAttr(axis)}, result_types=[result])

    def verify_(self) -> None:
        axis = self.axis.data
        if axes_of(self.result) != (axis,) or element_of(self.result) != self.ELEMENT:
            expected = f"a tile of {self.ELEMENT} with axis {axis} alone"
            raise VerifyException(f"the result is {self.result.type}, expected {expected}")


@irdl_op_definition
class PositionOp(_PositionsOp):
    """The positions along an axis, 0, 1, 2, …, as a tile of i64 with that axis alone."""

    name = "vk.position"
    ELEMENT: ClassVar[IntegerType] = i64

    assembly_format = "custom<Name>($axis) attr-dict `:` type($result)"

    def __init__(self, axis: str, size: int | None = None):
        super().__init__(axis, [], size)


@irdl_op_definition
class BelowOp(_PositionsOp):
    """Which positions along an axis are below a count: a tile of i1 with that axis alone. The mask of a tail."""

    name = "vk.below"
    ELEMENT: ClassVar[IntegerType] = i1

    count = operand_def(i64)

    assembly_format = "custom<Below>($axis) $count attr-dict `:` type($result)"

    def __init__(self, axis: str, count: SSAValue, size: int | None = None):
        super().__init__(axis, [count], size)


class ReductionOp(PureOp):
    """One value for all the elements along an axis; the result lacks that axis and keeps the others' order.

    The order of combining is free within a plan's choice: a pass may split the axis into chunks or programs.
    An axis without positions gives the neutral element.
    """

    tile = operand_def(TensorType)
    axis = prop_def(StringAttr)
    result = result_def()

    assembly_format = "$tile `along` custom<Name>($axis) attr-dict `:` type($tile) `->` type($result)"

    def __init__(self, tile: SSAValue, axis: str):
        result = without_axis(tile, axis)
        super().__init__(operands=[tile], properties={"axis": StringAttr(axis)}, result_types=[result])

    def verify_(self) -> None:
        verify_axis(self.axis, self.tile, "the tile's")
        verify_unsigned(self.name, self.name, self.tile)
        expected = without_axis(self.tile, self.axis.data)
        if self.result.type != expected:
            raise VerifyException(f"the result is {self.result.type}, expected {expected}")


@irdl_op_definition
class SumOp(ReductionOp):
    """The sum of a tile along an axis. Neutral: 0."""

    name = "vk.sum"


@irdl_op_definition
class ProductOp(ReductionOp):
    """The product of a tile along an axis. Neutral: 1."""

    name = "vk.product"


@irdl_op_definition
class MaxOp(ReductionOp):
    """The largest element of a tile along an axis, integers signed. If any is NaN it is NaN, or any number if it
    `ignores_nan`, since that makes no difference to the kernel. Neutral: -inf, or the least integer."""

    name = "vk.max"
    ignores_nan = opt_attr_def(UnitAttr)


@irdl_op_definition
class MinOp(ReductionOp):
    """The smallest element of a tile along an axis, integers signed; NaN if any is NaN. Neutral: inf, or the largest
    integer."""

    name = "vk.min"


@irdl_op_definition
class MaxUIOp(ReductionOp):
    """The largest of unsigned integers along an axis. Neutral: 0."""

    name = "vk.maxui"


@irdl_op_definition
class MinUIOp(ReductionOp):
    """The smallest of unsigned integers along an axis. Neutral: all bits set."""

    name = "vk.minui"


@irdl_op_definition
class ScanOp(PureOp):
    """Inclusive scan along an axis: each element combined with all before it. `kind` is sum, product, max or min;
    of unsigned integers maxui or minui."""

    name = "vk.scan"
    KINDS: ClassVar[tuple[str, ...]] = ("sum", "product", "max", "min", "maxui", "minui")

    T: ClassVar = VarConstraint("T", BaseAttr(TensorType))

    kind = prop_def(StringAttr)
    tile = operand_def(T)
    axis = prop_def(StringAttr)
    result = result_def(T)

    assembly_format = "custom<Name>($kind) $tile `along` custom<Name>($axis) attr-dict `:` type($tile)"

    def __init__(self, kind: str, tile: SSAValue, axis: str):
        super().__init__(
            operands=[tile],
            properties={"kind": StringAttr(kind), "axis": StringAttr(axis)},
            result_types=[tile.type],
        )

    def verify_(self) -> None:
        if self.kind.data not in self.KINDS:
            raise VerifyException(f'scan "{self.kind.data}" is not one of {listed(self.KINDS)}')
        verify_unsigned(f"scan {self.kind.data}", self.kind.data, self.tile)
        verify_axis(self.axis, self.tile, "the tile's")


@irdl_op_definition
class DotOp(PureOp):
    """Products of `left` and `right`, summed along an axis that both have, added to `sum`.

    The result's axes are all the others of both; axes that both share stay (a batch). `precision` is
    "ieee" or "tf32". Elements of all three are of one type; f16 and bf16 operands come extended to f32.
    """

    name = "vk.dot"

    PRECISIONS: ClassVar[tuple[str, ...]] = ("ieee", "tf32")
    T: ClassVar = VarConstraint("T", AnyAttr())

    left = operand_def(TensorType)
    right = operand_def(TensorType)
    sum = operand_def(T)
    axis = prop_def(StringAttr)
    precision = prop_def(StringAttr)
    result = result_def(T)

    assembly_format = (
        "$left `,` $right `,` $sum `along` custom<Name>($axis) `precision` custom<Name>($precision) attr-dict "
        "`:` type($left) `,` type($right) `,` type($sum)"
    )

    def __init__(self, left: SSAValue, right: SSAValue, sum: SSAValue, axis: str, precision: str = "ieee"):
        super().__init__(
            operands=[left, right, sum],
            properties={"axis": StringAttr(axis), "precision": StringAttr(precision)},
            result_types=[sum.type],
        )

    def verify_(self) -> None:
        if self.precision.data not in self.PRECISIONS:
            raise VerifyException(f'precision "{self.precision.data}" is not one of {listed(self.PRECISIONS)}')
        elements = [element_of(value) for value in (self.left, self.right, self.sum)]
        if elements.count(elements[0]) != 3:
            raise VerifyException(f"elements are {listed([str(e) for e in elements])}, expected one type")
        verify_contraction(self.left, self.right, self.sum, self.axis)


@irdl_op_definition
class ScaleOp(PureOp):
    """`value` times two to the `power`, a whole number of the same float type; rounded once. The result of expanding
    math for processors that have it as an instruction."""

    name = "vk.scale"

    T: ClassVar = VarConstraint("T", AnyAttr())
    value = operand_def(T)
    power = operand_def(T)
    result = result_def(T)

    assembly_format = "$value `,` $power attr-dict `:` type($result)"

    def __init__(self, value: SSAValue, power: SSAValue):
        super().__init__(operands=[value, power], result_types=[value.type])

    def verify_(self) -> None:
        if not isinstance(element_of(self.result), AnyFloat):
            raise VerifyException(f"vk.scale is of floats, not {self.result.type}")


@irdl_op_definition
class SpillOp(IRDLOperation):
    """Write a tile to memory of the program's own, so that no register holds it until its `vk.reload`.

    A lowering keeps both: they look like a useless copy, but free registers for the loop in between.
    """

    name = "vk.spill"

    tile = operand_def(TensorType)
    spilled = result_def(SpilledType)

    assembly_format = "$tile attr-dict `:` type($tile) `->` type($spilled)"

    def __init__(self, tile: SSAValue):
        super().__init__(operands=[tile], result_types=[SpilledType(tile.type)])

    def verify_(self) -> None:
        _verify_spilled(self.spilled.type, self.tile.type)


@irdl_op_definition
class ReloadOp(IRDLOperation):
    """A tile read back from where `vk.spill` wrote it."""

    name = "vk.reload"

    spilled = operand_def(SpilledType)
    tile = result_def(TensorType)

    assembly_format = "$spilled attr-dict `:` type($spilled) `->` type($tile)"

    def __init__(self, spilled: SSAValue[SpilledType]):
        super().__init__(operands=[spilled], result_types=[spilled.type.tile])

    def verify_(self) -> None:
        _verify_spilled(self.spilled.type, self.tile.type)


def _verify_spilled(spilled: Attribute, tile: Attribute) -> None:
    if not isinstance(spilled, SpilledType) or spilled.tile != tile:
        raise VerifyException(f"{tile} does not lie in {spilled}")


@irdl_op_definition
class PrintOp(IRDLOperation):
    """Show values, interpreted or checked; compiled kernels leave it out. `unsigned`: the numbers of the values that
    are unsigned integers, where there are any."""

    name = "vk.print"

    prefix = prop_def(StringAttr)
    unsigned = opt_prop_def(DenseArrayBase)
    values = var_operand_def()

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$prefix ($values^ `:` type($values))? attr-dict"

    def __init__(self, prefix: str, values: Sequence[SSAValue], unsigned: Sequence[bool] = ()):
        numbers = [number for number, is_unsigned in enumerate(unsigned) if is_unsigned]
        shown = DenseArrayBase.from_list(i64, numbers) if numbers else None
        super().__init__(operands=[values], properties={"prefix": StringAttr(prefix), "unsigned": shown})

    def verify_(self) -> None:
        for number in () if self.unsigned is None else self.unsigned.get_values():
            if number not in range(len(self.values)) or not isinstance(element_of(self.values[number]), IntegerType):
                raise VerifyException(f"value {number} is no integer, and is to be shown as an unsigned one")


@irdl_op_definition
class AssertOp(IRDLOperation):
    """Stop with `message` where a condition is false, interpreted or checked; compiled kernels leave it out."""

    name = "vk.assert"

    condition = operand_def()
    message = prop_def(StringAttr)

    assembly_format = "$condition `,` $message attr-dict `:` type($condition)"

    def __init__(self, condition: SSAValue, message: str):
        super().__init__(operands=[condition], properties={"message": StringAttr(message)})

    def verify_(self) -> None:
        if element_of(self.condition) != i1:
            raise VerifyException(f"the condition is {self.condition.type}, expected i1 or a tile of i1")


REDUCTIONS: tuple[type[ReductionOp], ...] = (SumOp, ProductOp, MaxOp, MinOp, MaxUIOp, MinUIOp)
