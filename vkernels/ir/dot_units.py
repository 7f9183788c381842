"""The dot units of CPUs: instructions that add products of narrow elements to sums of 32 bits.

A unit takes words: 32 bits that hold neighbouring elements along the contracted axis, the first in the lowest bits. In
each lane it adds the products of one word's elements with another's to the sum. A matrix unit does so for all rows of
one operand and all columns of the other, with up to 16 words of each, in eight registers of its own. A block unit takes
words of 64 bits, two rows of one operand and two columns of the other, and adds to the four sums of 128 bits; of longer
vector registers each 128 bits are a block.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from .word_kinds import BLOCK_SIDE, KINDS, MATRIX_SIDE, WordKind

MATRIX_REGISTERS = 8
"""Registers of a matrix unit, each of which holds a block of sums or of an operand."""


MOST_DOUBLINGS = 5
"""How often a chunk may double what a matrix unit takes at once. Its sums are added one after another."""


@dataclass(frozen=True)
class DotUnit:
    """A dot unit, by its `name` in `Limits`. `instructions`: by the kind of words, as `vk.word_dot` has it, the name of
    the instruction in assembly.

    Sums of integers are i32 and exact modulo 2^32; those of floats are f32, rounded as `vk.word_dot` says.
    """

    name: str
    instructions: Mapping[str, str]

    @property
    def depth(self) -> int:
        """Elements of a word; 1 where they are split."""
        return self._kind.depth

    @property
    def is_split(self) -> bool:
        """Whether it takes elements as sums of two parts."""
        return self._kind.split

    @property
    def rate(self) -> float:
        """Products of elements in the time of one product of words."""
        return self.depth / self._kind.parts

    @property
    def is_matrix(self) -> bool:
        """Whether it multiplies matrices."""
        return self._kind.matrix

    @property
    def is_block(self) -> bool:
        """Whether it multiplies blocks of two rows and two columns."""
        return self._kind.block

    @property
    def _kind(self) -> WordKind:
        return KINDS[next(iter(self.instructions))]

    @property
    def side(self) -> int:
        """Rows, and columns, of which a tile of sums has a multiple."""
        return BLOCK_SIDE if self.is_block else 1

    @property
    def chunk(self) -> int:
        """Elements along the contracted axis of which a chunk has a multiple; a matrix unit's chunks: see `chunks`."""
        return self.depth * self._kind.parts * (MATRIX_SIDE if self.is_matrix else 1)

    @property
    def chunks(self) -> tuple[int, ...]:
        """The lengths of a matrix unit's chunks: as much as it takes at once, times powers of two."""
        return tuple(self.chunk << n for n in range(MOST_DOUBLINGS + 1))

    def takes(self, element: str) -> bool:
        """Whether it multiplies elements of a type: `s8`, `u8`, `bf16` or `f16`, of either sign."""
        kinds = [KINDS[kind] for kind in self.instructions]
        return any(element in (kind.left, kind.right) for kind in kinds)

    def kinds_of(self, left: str, right: str) -> str | None:
        """The kind of words for operands of these elements, in this order; None if there is none."""
        return next((k for k in self.instructions if (KINDS[k].left, KINDS[k].right) == (left, right)), None)


def _integers(prefix: str, **instructions: str) -> dict[str, str]:
    return {prefix + kind: instruction for kind, instruction in instructions.items()}


def _of_arm(name: str, instructions: Mapping[str, str]) -> tuple[DotUnit, ...]:
    """A unit's instructions on vectors of SVE, and on those of NEON."""
    return DotUnit(f"sve-{name}", instructions), DotUnit(f"neon-{name}", instructions)


DOT_UNITS = {
    unit.name: unit
    for unit in (
        DotUnit(
            "amx-int8",
            _integers("matrix_", s8s8="tdpbssd", s8u8="tdpbusd", u8s8="tdpbsud", u8u8="tdpbuud"),
        ),
        DotUnit("vnni-int8", _integers("", s8s8="vpdpbssd", s8u8="vpdpbsud", u8u8="vpdpbuud")),
        DotUnit("vnni", _integers("", u8s8="vpdpbusd")),
        *_of_arm("mmla-int8", _integers("block_", s8s8="smmla", u8u8="ummla", u8s8="usmmla")),
        *_of_arm("dotprod", _integers("", s8s8="sdot", u8u8="udot")),
        *_of_arm("i8mm", _integers("", u8s8="usdot")),
        DotUnit("amx-bf16", {"matrix_bf16": "tdpbf16ps"}),
        DotUnit("avx512-bf16", {"bf16": "vdpbf16ps"}),
        *_of_arm("mmla-bf16", {"block_bf16_odd": "bfmmla"}),
        *_of_arm("bf16", {"bf16_odd": "bfdot"}),
        DotUnit("amx-fp16", {"matrix_f16": "tdpfp16ps"}),
        DotUnit("amx-bf16-split", {"matrix_split_f16": "tdpbf16ps"}),
    )
}
"""Every unit by its name, the best of an element first. A matrix unit's instructions take the rows' operand first."""


@dataclass(frozen=True)
class OnUnit:
    """How a dot runs on a unit: its `kind` of words, and `swapped`, whether the unit takes the second operand first.

    `flipped`: 128 is added to each element of the first operand, modulo 256, since the unit takes the other sign, and
    `factor` times the sum of the second one's elements belongs to the sum.
    """

    unit: DotUnit
    kind: str
    swapped: bool = False
    flipped: bool = False
    factor: int = 0

    @property
    def joins(self) -> bool:
        """Whether it takes words that are joined in registers: by lane, and of the elements as they are."""
        return not (self.unit.is_matrix or self.unit.is_block or self.flipped)

    @property
    def instruction(self) -> str:
        return self.unit.instructions[self.kind]


def units_for(names: Iterable[str], first: str, second: str) -> list[OnUnit]:
    """How the units among `names` multiply operands of these elements, the best unit first: matrix units, then those
    that take the elements as they are."""
    present = set(names)
    found = (_on_unit(unit, first, second) for name, unit in DOT_UNITS.items() if name in present)
    return sorted((each for each in found if each is not None), key=lambda on: (not on.unit.is_matrix, on.flipped))


def _on_unit(unit: DotUnit, first: str, second: str) -> OnUnit | None:
    for flipped in (False, True) if first in _FLIPPED else (False,):
        taken = _FLIPPED[first] if flipped else first
        factor = (128 if first == "u8" else -128) if flipped else 0
        if kind := unit.kinds_of(taken, second):
            return OnUnit(unit, kind, False, flipped, factor)
        if not unit.is_matrix and (kind := unit.kinds_of(second, taken)):
            return OnUnit(unit, kind, True, flipped, factor)
    return None


_FLIPPED = {"s8": "u8", "u8": "s8"}


@dataclass(frozen=True)
class MatrixBlocks:
    """How a tile of sums is cut into blocks for a matrix unit: the rows and the columns of each block.

    The last of either may be shorter. Each block of sums, of rows and of columns has a register of its own.
    """

    rows: tuple[int, ...]
    columns: tuple[int, ...]

    @staticmethod
    def of(rows: int, columns: int) -> MatrixBlocks:
        return MatrixBlocks(_cut(rows), _cut(columns))

    def registers(self, dots: int = 1) -> int:
        """Registers for the sums of some dots of this shape, and for the operands of one."""
        return dots * len(self.rows) * len(self.columns) + len(self.rows) + len(self.columns)


def _cut(size: int) -> tuple[int, ...]:
    return tuple(min(MATRIX_SIDE, size - start) for start in range(0, size, MATRIX_SIDE))
