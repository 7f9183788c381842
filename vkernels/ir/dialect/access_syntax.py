"""The assembly of accesses: `%x[%r + i, 2 * j] within (i < %m) where %mask guarding [0]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, StringAttr, i1, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.parser import Parser, UnresolvedOperand
from xdsl.printer import Printer

from .attributes import IndexAttr, axes_of, parse_optional_term, sizes_of, tile_type
from .names import parse_name, spelled


class PrintedAccess(Protocol):
    """What printing reads of an `AccessOp`."""

    index: ArrayAttr[IndexAttr]
    within: ArrayAttr[StringAttr]
    attributes: dict[str, Attribute]

    @property
    def base(self) -> SSAValue: ...

    @property
    def offsets(self) -> Sequence[SSAValue]: ...

    @property
    def mask(self) -> SSAValue | None: ...

    @property
    def bounds(self) -> dict[str, SSAValue]: ...

    @property
    def guarded_dimensions(self) -> tuple[int, ...]: ...

    def offset_of(self, dimension: int) -> SSAValue | None: ...


def print_access(printer: Printer, access: PrintedAccess) -> None:
    """What is addressed, the index of each dimension, and what makes elements inactive."""
    printer.print_string(" ")
    printer.print_ssa_value(access.base)
    with printer.in_square_brackets():
        printer.print_list(range(len(access.index)), lambda d: _print_index(printer, access, d))
    if access.within.data:
        printer.print_string(" within ")
        with printer.in_parens():
            printer.print_list(access.bounds.items(), lambda bound: _print_bound(printer, *bound))
    if access.mask is not None:
        printer.print_string(" where ")
        printer.print_ssa_value(access.mask)
    if access.guarded_dimensions:
        printer.print_string(f" guarding [{', '.join(map(str, access.guarded_dimensions))}]")


def _print_index(printer: Printer, access: PrintedAccess, dimension: int) -> None:
    index, offset = access.index.data[dimension], access.offset_of(dimension)
    if offset is None:
        printer.print_string(index.text(""))
        return
    printer.print_ssa_value(offset)
    if index.terms:
        printer.print_string(" + " + IndexAttr(index.terms).text(""))


def print_types(printer: Printer, access: PrintedAccess, gathers: bool) -> None:
    """Attributes and the type of what is addressed; of a gather or scatter the offsets' types too."""
    printer.print_op_attributes(access.attributes)
    printer.print_string(" : ")
    printer.print_attribute(access.base.type)
    if gathers:
        printer.print_string(", ")
        with printer.in_parens():
            printer.print_list(access.offsets, lambda offset: printer.print_attribute(offset.type))


def parse_access(parser: Parser) -> ParsedAccess:
    """What `print_access` prints."""
    base = parser.parse_unresolved_operand()
    offsets: list[UnresolvedOperand] = []
    index = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, lambda: _parse_index(parser, offsets))
    bounds: list[tuple[str, UnresolvedOperand]] = []
    if parser.parse_optional_keyword("within") is not None:
        bounds = parser.parse_comma_separated_list(parser.Delimiter.PAREN, lambda: _parse_bound(parser))
    mask = parser.parse_unresolved_operand() if parser.parse_optional_keyword("where") is not None else None
    guarded: list[int] = []
    if parser.parse_optional_keyword("guarding") is not None:
        guarded = parser.parse_comma_separated_list(parser.Delimiter.SQUARE, parser.parse_integer)
    return ParsedAccess(base, offsets, index, bounds, mask, guarded)


def parse_types(
    parser: Parser, access: ParsedAccess, gathers: bool
) -> tuple[dict[str, Attribute], Attribute, Sequence[Attribute]]:
    """What `print_types` prints: attributes, the type of what is addressed, the offsets' types."""
    attributes = parser.parse_optional_attr_dict()
    parser.parse_punctuation(":")
    base = parser.parse_type()
    if not gathers:
        return attributes, base, [i64] * len(access.offsets)
    parser.parse_punctuation(",")
    return attributes, base, parser.parse_comma_separated_list(parser.Delimiter.PAREN, parser.parse_type)


@dataclass(frozen=True)
class ParsedAccess:
    """An access as parsed: operands still without types."""

    base: UnresolvedOperand
    offsets: Sequence[UnresolvedOperand]
    index: Sequence[IndexAttr]
    bounds: Sequence[tuple[str, UnresolvedOperand]]
    mask: UnresolvedOperand | None
    guarded: Sequence[int]

    def resolve(
        self, parser: Parser, base: Attribute, offsets: Sequence[Attribute], tile: Attribute
    ) -> tuple[SSAValue, list[SSAValue], list[SSAValue], list[SSAValue]]:
        """Base, offsets, counts and mask (none or one) as values."""
        if len(offsets) != len(self.offsets):
            parser.raise_error(f"{len(self.offsets)} offsets, {len(offsets)} types for them")
        mask = tile_type(i1, axes_of(tile), sizes_of(tile).values())
        return (
            parser.resolve_operand(self.base, base),
            [parser.resolve_operand(o, t) for o, t in zip(self.offsets, offsets, strict=True)],
            [parser.resolve_operand(count, i64) for _, count in self.bounds],
            [] if self.mask is None else [parser.resolve_operand(self.mask, mask)],
        )

    def properties(self) -> dict[str, Attribute]:
        """The operation's properties."""
        return {
            "index": ArrayAttr(self.index),
            "within": ArrayAttr(StringAttr(axis) for axis, _ in self.bounds),
            "guarded": DenseArrayBase.from_list(i64, self.guarded),
        }


def _print_bound(printer: Printer, axis: str, count: SSAValue) -> None:
    printer.print_string(f"{spelled(axis)} < ")
    printer.print_ssa_value(count)


def _parse_bound(parser: Parser) -> tuple[str, UnresolvedOperand]:
    axis = parse_name(parser, "axis name")
    parser.parse_punctuation("<")
    return axis, parser.parse_unresolved_operand()


def _parse_index(parser: Parser, offsets: list[UnresolvedOperand]) -> IndexAttr:
    number, terms = -1, []
    while True:
        if (operand := parser.parse_optional_unresolved_operand()) is not None:
            if number >= 0:
                parser.raise_error("an index has one offset at most")
            number = len(offsets)
            offsets.append(operand)
        elif (term := parse_optional_term(parser)) is not None:
            terms.append(term)
        if parser.parse_optional_punctuation("+") is None:
            return IndexAttr(terms, number)
