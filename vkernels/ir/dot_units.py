"""The dot units of CPUs: instructions that add products of narrow elements to sums of 32 bits.

A unit takes words: 32 bits that hold neighbouring elements along the contracted axis, the first in the lowest bits. In
each lane it adds the products of one word's elements with another's to the sum.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from xdsl.ir import Attribute

from .dialect.words import KINDS


@dataclass(frozen=True)
class DotUnit:
    """An `instruction`, by its name in assembly. `kind`: how it reads its words' elements, as `vk.word_dot` has it.

    `name`: in `Limits`. `element`: of the operands: `i8` or `bf16`. Sums of i8 are i32 and exact modulo 2^32; those of
    bf16 are f32, rounded to nearest after each product, and numbers below 2^-126 are 0 (operands, products and sums).
    """

    name: str
    element: str
    kind: str
    instruction: str

    @property
    def depth(self) -> int:
        """Elements of a word."""
        return KINDS[self.kind][0]

    @property
    def offset(self) -> int:
        """What is added to each element of the first operand before the unit reads it, as it reads unsigned ones."""
        return 128 if self.kind == "u8s8" else 0


DOT_UNITS = {
    unit.name: unit
    for unit in (
        DotUnit("vnni-int8", "i8", "s8s8", "vpdpbssd"),
        DotUnit("vnni", "i8", "u8s8", "vpdpbusd"),
        DotUnit("avx512-bf16", "bf16", "bf16", "vdpbf16ps"),
    )
}
"""Every unit by its name, the best of an element first."""


def unit_for(names: Iterable[str], element: Attribute) -> DotUnit | None:
    """The best unit among `names` for operands of an element type; None if there is none."""
    present = set(names)
    return next((unit for name, unit in DOT_UNITS.items() if name in present and unit.element == str(element)), None)
