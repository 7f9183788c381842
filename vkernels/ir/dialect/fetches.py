"""Atomic updates that give what was in memory before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Self

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, opt_operand_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from .access import ATOMICS, WRITES, AccessOp, WriteOp, parse_access, print_access
from .access_parts import Index, access_parts


@irdl_op_definition
class FetchOp(WriteOp):
    """Update elements atomically, one after another in any order; the result is what each found. 0 where inactive.

    `atomic`: add, max, min, maxui, minui; exchange, which stores the value; or compare, which stores it where the
    element has the bits of `expected`. Offsets may be tiles. It is done once for each element of the tile, so
    only a store into memory uses the result.
    """

    name = "vk.fetch"
    GATHERS: ClassVar[bool] = True
    NEEDS_TILE: ClassVar[bool] = False
    ATOMICS: ClassVar[tuple[str, ...]] = (*ATOMICS, "exchange", "compare")

    expected = opt_operand_def()
    result = result_def()

    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())

    def __init__(
        self,
        value: SSAValue,
        base: SSAValue,
        index: Iterable[Index],
        atomic: str,
        *,
        expected: SSAValue | None = None,
        mask: SSAValue | None = None,
        guarded: Sequence[int] = (),
    ):
        operands, properties = access_parts(base, index, None, mask, guarded)
        AccessOp.__init__(
            self,
            operands=[[] if expected is None else [expected], value, *operands],
            properties={**properties, "atomic": StringAttr(atomic)},
            result_types=[value.type],
        )

    def verify_(self) -> None:
        super().verify_()
        if self.atomic is None:
            raise VerifyException("a fetch is atomic")
        if (self.expected is not None) != (self.atomic.data == "compare"):
            raise VerifyException("a fetch that compares, and no other, expects an element")
        for value in (self.value, self.expected):
            if value is not None and value.type != self.result.type:
                raise VerifyException(f"a value is {value.type}, and the result {self.result.type}")

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.value)
        printer.print_string(f" atomic {self.atomic.data if self.atomic is not None else ''}")
        if self.expected is not None:
            printer.print_string(" with ")
            printer.print_ssa_value(self.expected)
        printer.print_string(" in")
        print_access(printer, self, WRITES)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        value = parser.parse_unresolved_operand()
        parser.parse_keyword("atomic")
        atomic = parser.parse_identifier()
        expects = parser.parse_optional_keyword("with") is not None
        expected = [parser.parse_unresolved_operand()] if expects else []
        parser.parse_keyword("in")
        operands, properties, attributes, tile = parse_access(parser, True, WRITES)
        return cls.build(
            operands=[
                [parser.resolve_operand(each, tile) for each in expected],
                parser.resolve_operand(value, tile),
                *operands,
            ],
            properties={**properties, "atomic": StringAttr(atomic)},
            attributes=attributes,
            result_types=[tile],
        )
