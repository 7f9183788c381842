"""Terminators of blocks, and the assembly of bodies and block arguments."""

from __future__ import annotations

from xdsl.ir import Block, BlockArgument, Operation, Region
from xdsl.parser import Parser
from xdsl.printer import Printer


def terminator(block: Block) -> Operation:
    """The last operation of a block that verifies."""
    assert block.last_op is not None, "an empty block does not verify"
    return block.last_op


def print_argument(printer: Printer, argument: BlockArgument, name: str) -> None:
    """`%x`, or `%v as "x"` where the value does not print under its own name."""
    if printer.print_ssa_value(argument) != name:
        printer.print_string(" as ")
        printer.print_string_literal(name)


def parse_argument(parser: Parser) -> tuple[str, Parser.UnresolvedArgument]:
    """What `print_argument` writes: the name, and the argument without its type."""
    argument = parser.parse_argument(expect_type=False)
    if parser.parse_optional_keyword("as") is not None:
        return parser.parse_str_literal(), argument
    return argument.name.text[1:], argument


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
