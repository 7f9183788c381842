"""Loads and stores: the operations that move tiles between memory and programs.

An access names, for each dimension of what it addresses, an index: a sum of axis positions times coefficients and one
offset, a scalar or a tile. Positions count from 0 along the tile, so in mapped IR the start of a chunk is an offset.
Three things make an element inactive: its position along an axis is not below the axis's count (`within`), its mask
is false (`where`), or the index of a guarded dimension is outside of it (`guarding`). An inactive element loads 0 and
stores nothing. Along axes that no index names, a load gives the same element again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Self, cast

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerType, StringAttr, TensorType, UnitAttr, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.mlir_lexer import PunctuationSpelling

from .access_parts import Index, access_parts
from .assembly import listed, parse_name, spelled
from .attributes import IndexAttr, axes_of, element_of, parse_index, size_text, sizes_of, tile_type
from .boxes import axes_of_box
from .compute import verify_unsigned
from .types import MemoryType, TensorArgumentType


class AccessOp(IRDLOperation):
    """A load or a store. Its assembly: `%x[%r + i, 2 * j] within (i < %m) where %mask guarding [0]`."""

    GATHERS: ClassVar[bool] = False
    """Whether offsets may be tiles."""
    NEEDS_TILE: ClassVar[bool] = True
    """If they may, whether one must be."""

    base = operand_def(MemoryType)
    offsets = var_operand_def()
    counts = var_operand_def(i64)
    mask = opt_operand_def()

    index = prop_def(ArrayAttr[IndexAttr])
    within = prop_def(ArrayAttr[StringAttr], default_value=ArrayAttr([]))
    guarded = prop_def(DenseArrayBase, default_value=DenseArrayBase.from_list(i64, []))
    described = opt_prop_def(UnitAttr)
    """A box of a tensor: inactive elements are those outside of it, so a descriptor of the tensor can move it."""

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    @property
    def tile(self) -> SSAValue:
        """The value that is loaded or stored: a load's result, a store's first operand."""
        return self.results[0] if self.results else self.operands[0]

    @property
    def memory(self) -> MemoryType:
        """The type of the memory."""
        return cast(MemoryType, self.base.type)

    @property
    def bounds(self) -> dict[str, SSAValue]:
        """Axis → count: elements at positions not below the count are inactive."""
        return {axis.data: count for axis, count in zip(self.within, self.counts, strict=True)}

    @property
    def guarded_dimensions(self) -> tuple[int, ...]:
        return tuple(int(d) for d in self.guarded.iter_values())

    def offset_of(self, dimension: int) -> SSAValue | None:
        """The offset operand of a dimension's index, if it has one."""
        number = self.index.data[dimension].offset.data
        return self.offsets[number] if number >= 0 else None

    def verify_(self) -> None:
        base = self.memory
        if len(self.index) != len(base.shape):
            raise VerifyException(f"{len(self.index)} indices for {base}, which has {len(base.shape)} dimensions")
        if element_of(self.tile) != base.element:
            raise VerifyException(f"elements of {element_of(self.tile)} for {base}, which holds {base.element}")
        self._verify_offsets()
        self._verify_axes()
        self._verify_activity(len(base.shape))
        is_box = isinstance(base, TensorArgumentType) and self.mask is None and axes_of_box(self.index) is not None
        if self.described is not None and (self.GATHERS or not is_box):
            raise VerifyException("a described access takes an unmasked box of a tensor: one axis a dimension, by ones")

    def _verify_offsets(self) -> None:
        used = [index.offset.data for index in self.index if index.offset.data >= 0]
        if used != list(range(len(self.offsets))):
            raise VerifyException(f"the indices use offsets {used}, but {len(self.offsets)} are given, in this order")
        for offset in self.offsets:
            element = element_of(offset)
            is_tile = isinstance(offset.type, TensorType)
            if is_tile and not self.GATHERS:
                raise VerifyException(f"{self.name} takes scalar offsets; an index tile needs vk.gather or vk.scatter")
            if is_tile and (not isinstance(element, IntegerType) or element == i1):
                raise VerifyException(f"an index tile must hold integers, not {element}")
            if not is_tile and element != i64:
                raise VerifyException(f"a scalar offset must be i64, not {element}")
        if self.GATHERS and self.NEEDS_TILE and not any(isinstance(offset.type, TensorType) for offset in self.offsets):
            raise VerifyException(f"{self.name} needs an index tile; without one it is a vk.load or vk.store")

    def _verify_axes(self) -> None:
        axes, sizes = axes_of(self.tile), dict[str, int]()
        for offset in self.offsets:
            sizes |= sizes_of(offset)
        named = sizes.keys() | {axis for index in self.index for axis, _ in index.terms}
        if named != set(axes) and not (self.results and named < set(axes)):
            raise VerifyException(f"the indices name axes {listed(sorted(named))}, the tile {listed(axes)}")
        for axis, size in sizes_of(self.tile).items():
            if sizes.get(axis, size) != size:
                shown, other = size_text(size), size_text(sizes[axis])
                raise VerifyException(f"axis {axis} has size {shown} in the tile and {other} in an index tile")

    def _verify_activity(self, rank: int) -> None:
        axes = axes_of(self.tile)
        if len(self.within) != len(self.counts):
            raise VerifyException(f"{len(self.within)} axes within {len(self.counts)} counts")
        if len(self.bounds) != len(self.within):
            raise VerifyException(f"an axis is bounded twice in {', '.join(axis.data for axis in self.within)}")
        for axis in self.bounds:
            if axis not in axes:
                raise VerifyException(f"axis {axis} is bounded, but the tile has {listed(axes)}")
        if self.mask is not None:
            expected = tile_type(i1, axes, sizes_of(self.tile).values())
            if self.mask.type != expected:
                raise VerifyException(f"the mask is {self.mask.type}, expected {expected}")
        for dimension in self.guarded_dimensions:
            if not 0 <= dimension < rank:
                raise VerifyException(f"dimension {dimension} is guarded, but there are {rank}")


# The assembly

_READS: tuple[PunctuationSpelling, ...] = ("->",)
WRITES: tuple[PunctuationSpelling, ...] = ("<", "-")


def print_access(printer: Printer, op: AccessOp, arrow: Sequence[PunctuationSpelling]) -> None:
    """The memory, the index of each dimension, the conditions of inactive elements, and the types."""
    printer.print_string(" ")
    printer.print_ssa_value(op.base)
    with printer.in_square_brackets():
        printer.print_list(range(len(op.index)), lambda d: _print_index(printer, op, d))
    if op.bounds:
        printer.print_string(" within ")
        with printer.in_parens():
            printer.print_list(op.bounds.items(), lambda bound: _print_bound(printer, *bound))
    if op.mask is not None:
        printer.print_string(" where ")
        printer.print_ssa_value(op.mask)
    if op.guarded_dimensions:
        printer.print_string(f" guarding [{', '.join(map(str, op.guarded_dimensions))}]")
    if op.described is not None:
        printer.print_string(" described")
    printer.print_op_attributes(op.attributes)
    printer.print_string(" : ")
    printer.print_attribute(op.base.type)
    if op.GATHERS:
        printer.print_string(", ")
        with printer.in_parens():
            printer.print_list(op.offsets.types, printer.print_attribute)
    printer.print_string(f" {''.join(arrow)} ")
    printer.print_attribute(op.tile.type)


def _print_index(printer: Printer, op: AccessOp, dimension: int) -> None:
    index, offset = op.index.data[dimension], op.offset_of(dimension)
    if offset is not None:
        printer.print_ssa_value(offset)
        printer.print_string(" + " if index.terms else "")
    if offset is None or index.terms:
        printer.print_string(IndexAttr(index.terms).text(""))


def _print_bound(printer: Printer, axis: str, count: SSAValue) -> None:
    printer.print_string(f"{spelled(axis)} < ")
    printer.print_ssa_value(count)


_Operands = list[SSAValue | list[SSAValue]]


def parse_access(
    parser: Parser, gathers: bool, arrow: Sequence[PunctuationSpelling]
) -> tuple[_Operands, dict[str, Attribute], dict[str, Attribute], Attribute]:
    """Parse the text of `print_access`: operands, properties, attributes and the tile's type."""
    base = parser.parse_unresolved_operand()
    offsets: list[UnresolvedOperand] = []
    index = parser.parse_comma_separated_list(
        parser.Delimiter.SQUARE, lambda: parse_index(parser, lambda: _parse_optional_offset(parser, offsets))
    )
    bounds: list[tuple[str, UnresolvedOperand]] = []
    if parser.parse_optional_keyword("within") is not None:
        bounds = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_bound(parser))
    mask = [parser.parse_unresolved_operand()] if parser.parse_optional_keyword("where") is not None else []
    guarded: list[int] = []
    if parser.parse_optional_keyword("guarding") is not None:
        guarded = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    is_described = parser.parse_optional_keyword("described") is not None
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    base_type = parser.parse_type()
    offset_types: list[Attribute] = [i64] * len(offsets)
    if gathers:
        parser.parse_punctuation(",")
        offset_types = parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)
        if len(offset_types) != len(offsets):
            parser.raise_error(f"{len(offsets)} offsets, {len(offset_types)} types for them")
    for punctuation in arrow:
        parser.parse_punctuation(punctuation)
    tile = parser.parse_type()
    mask_type = tile_type(i1, axes_of(tile), sizes_of(tile).values())
    operands: _Operands = [
        parser.resolve_operand(base, base_type),
        list(parser.resolve_operands(offsets, offset_types, parser.pos)),
        [parser.resolve_operand(count, i64) for _, count in bounds],
        [parser.resolve_operand(operand, mask_type) for operand in mask],
    ]
    properties: dict[str, Attribute] = {
        "index": ArrayAttr(index),
        "within": ArrayAttr(StringAttr(axis) for axis, _ in bounds),
        "guarded": DenseArrayBase.from_list(i64, guarded),
        **({"described": UnitAttr()} if is_described else {}),
    }
    return operands, properties, attributes, tile


def _parse_optional_offset(parser: Parser, offsets: list[UnresolvedOperand]) -> int | None:
    operand = parser.parse_optional_unresolved_operand()
    if operand is None:
        return None
    offsets.append(operand)
    return len(offsets) - 1


def _parse_bound(parser: Parser) -> tuple[str, UnresolvedOperand]:
    axis = parse_name(parser, "axis name")
    parser.parse_punctuation("<")
    return axis, parser.parse_unresolved_operand()


class ReadOp(AccessOp):
    result = result_def()

    traits = traits_def(MemoryReadEffect())

    def __init__(
        self,
        base: SSAValue | Operation,
        index: Iterable[Index],
        result: Attribute,
        *,
        bounds: Mapping[str, SSAValue] | None = None,
        mask: SSAValue | None = None,
        guarded: Sequence[int] = (),
    ):
        operands, properties = access_parts(base, index, bounds, mask, guarded)
        super().__init__(operands=operands, properties=properties, result_types=[result])

    def print(self, printer: Printer) -> None:
        print_access(printer, self, _READS)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        operands, properties, attributes, tile = parse_access(parser, cls.GATHERS, _READS)
        return cls.build(operands=operands, properties=properties, attributes=attributes, result_types=[tile])


@irdl_op_definition
class LoadOp(ReadOp):
    """Read a tile at indices affine in its axes. Inactive elements are 0."""

    name = "vk.load"


@irdl_op_definition
class GatherOp(ReadOp):
    """Read a tile at indices of which at least one is a tile. A dimension that is not guarded must be in range:
    an index tile's values are the caller's, and the interpreters and checked kernels report values out of range."""

    name = "vk.gather"
    GATHERS: ClassVar[bool] = True


ATOMICS = ("add", "max", "min", "maxui", "minui")
"""How atomic stores combine; the last two compare unsigned integers."""
_FLAGS = ("exclusive", "streaming")


class WriteOp(AccessOp):
    """A store, a scatter, or a fetch."""

    ATOMICS: ClassVar[tuple[str, ...]] = ATOMICS

    value = operand_def()
    atomic = opt_prop_def(StringAttr)
    streaming = opt_prop_def(UnitAttr)
    """The element will not be read again soon: write past the caches where the target can."""
    exclusive = opt_prop_def(UnitAttr)
    """No other program accesses the elements during the launch: a program of one thread may combine them in turn."""

    traits = traits_def(MemoryWriteEffect())

    def __init__(
        self,
        value: SSAValue | Operation,
        base: SSAValue | Operation,
        index: Iterable[Index],
        *,
        bounds: Mapping[str, SSAValue] | None = None,
        mask: SSAValue | None = None,
        guarded: Sequence[int] = (),
        atomic: str | None = None,
    ):
        operands, properties = access_parts(base, index, bounds, mask, guarded)
        properties["atomic"] = None if atomic is None else StringAttr(atomic)
        super().__init__(operands=[value, *operands], properties=properties)

    def verify_(self) -> None:
        super().verify_()
        if self.atomic is None:
            if self.exclusive is not None:
                raise VerifyException("only an atomic access can be exclusive")
            return
        if self.atomic.data not in self.ATOMICS:
            raise VerifyException(f'atomic "{self.atomic.data}" is not one of {", ".join(self.ATOMICS)}')
        verify_unsigned(f"atomic {self.atomic.data}", self.atomic.data, self.value)
        if self.streaming is not None or self.described is not None:
            how = "streaming" if self.streaming is not None else "described"
            raise VerifyException(f"an atomic access reads what it writes, so it cannot be {how}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        how = [f"atomic {self.atomic.data}"] if self.atomic is not None else []
        printer.print_string(" ".join(["", *how, *(name for name in _FLAGS if name in self.properties), "in"]))
        print_access(printer, self, WRITES)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        value = parser.parse_unresolved_operand()
        atomic = parser.parse_identifier() if parser.parse_optional_keyword("atomic") is not None else None
        flags = [name for name in _FLAGS if parser.parse_optional_keyword(name) is not None]
        parser.parse_keyword("in")
        operands, properties, attributes, tile = parse_access(parser, cls.GATHERS, WRITES)
        if atomic is not None:
            properties["atomic"] = StringAttr(atomic)
        properties |= dict.fromkeys(flags, UnitAttr())
        return cls.build(
            operands=[parser.resolve_operand(value, tile), *operands], properties=properties, attributes=attributes
        )


@irdl_op_definition
class StoreOp(WriteOp):
    """Write a tile at indices affine in its axes; `atomic` combines instead (add, max, min, maxui, minui).

    Inactive elements are not written."""

    name = "vk.store"


@irdl_op_definition
class ScatterOp(WriteOp):
    """Write a tile at indices of which at least one is a tile. Where two active elements name one place, either may
    remain, unless `atomic` combines them."""

    name = "vk.scatter"
    GATHERS: ClassVar[bool] = True
