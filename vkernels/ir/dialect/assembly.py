"""Assembly of names, bodies and block arguments. A name is any text, quoted where it is not an identifier."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute, BlockArgument, Region
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer


def print_argument(printer: Printer, argument: BlockArgument, name: str) -> None:
    """`%x`, or `%v as "x"` where the value does not print under its own name."""
    if printer.print_ssa_value(argument) != name:
        printer.print_string(" as ")
        printer.print_string_literal(name)


def parse_argument(parser: Parser) -> tuple[str, Parser.UnresolvedArgument]:
    """Parse the text of `print_argument`: the name, and the argument without its type."""
    argument = parser.parse_argument(expect_type=False)
    if parser.parse_optional_keyword("as") is not None:
        return parser.parse_str_literal(), argument
    return argument.name.text[1:], argument


def parse_attributes(parser: Parser) -> dict[str, Attribute]:
    """`attributes {...}`, if it is there."""
    attributes = parser.parse_optional_attr_dict_with_keyword()
    return {} if attributes is None else dict(attributes.data)


def print_location(printer: Printer, argument: BlockArgument) -> None:
    """` loc(...)` of a block argument, where locations are printed."""
    if printer.print_debuginfo:
        printer.print_string(" ")
        printer.print_attribute(argument.location)


def print_body(printer: Printer, body: Region, terminator: bool = True) -> None:
    """The operations of a region of one block, whose arguments are printed already."""
    printer.print_string(" ")
    printer.print_region(
        body, print_entry_block_args=False, print_empty_block=False, print_block_terminators=terminator
    )


_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def spelled(name: str) -> str:
    """A name as assembly shows it: bare if it is an identifier, else a string literal."""
    if _IDENTIFIER.fullmatch(name):
        return name
    plain = (chr(b) if 0x20 <= b < 0x7F and b not in b'"\\' else f"\\{b:02X}" for b in name.encode())
    return f'"{"".join(plain)}"'


def parse_name(parser: AttrParser, what: str) -> str:
    """A name as `spelled` writes it; `what` says in the error which kind of name was expected."""
    quoted = parser.parse_optional_str_literal()
    return quoted if quoted is not None else parser.expect(parser.parse_optional_identifier, f"{what} expected")


def listed(names: tuple[str, ...] | list[str]) -> str:
    """Names for a message: `i, j`, or `none`."""
    return ", ".join(names) or "none"


@irdl_custom_directive
class Name(CustomDirective):
    """`custom<Name>($property)` in an assembly format: a `StringAttr` printed as a name."""

    attribute: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.attribute.set(state, StringAttr(parse_name(parser, self.attribute.name)))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        value = self.attribute.get(op)
        state.print_whitespace(printer)
        printer.print_string(spelled(value.data) if isinstance(value, StringAttr) else '""')


@irdl_custom_directive
class Below(Name):
    """`custom<Below>($property)`: the name and ` <`, with the space that a bare `<` in a format does not get."""

    attribute: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        super().parse(parser, state)
        parser.parse_punctuation("<")

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        super().print(printer, state, op)
        printer.print_string(" <")
