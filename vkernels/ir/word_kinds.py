"""The kinds of words that dot units take, known without the dialect, which takes long to import."""

from __future__ import annotations

from dataclasses import dataclass

MATRIX_SIDE = 16
"""The most rows and columns of a matrix unit's registers, and the words that it contracts at once."""
BLOCK_SIDE = 2
"""Rows and columns of the block of sums in a register, of a unit that multiplies blocks."""
SPLIT_PARTS = 2
"""Parts of an element that is split: the upper and the lower one."""
SPLIT_ELEMENTS = SPLIT_PARTS * MATRIX_SIDE
"""Neighbouring elements whose parts are in words side by side: one of each half of them in a word."""


@dataclass(frozen=True)
class WordKind:
    """How a dot reads its words: as elements of the `left` and of the `right` operand's, with sums of type `sum`, i32
    or f32.

    `matrix`: a unit that multiplies matrices takes `MATRIX_SIDE` words of each at once. `block`: words have 64 bits,
    and a unit multiplies two rows by two columns of them. `odd`: sums of pairs are rounded to odd. `split`: elements of
    f16 are sums of two bf16, which `vk.words` puts in words of their own, as many as there are elements.
    """

    left: str
    right: str
    sum: str
    matrix: bool = False
    block: bool = False
    odd: bool = False
    split: bool = False

    @property
    def bits(self) -> int:
        """Bits of a word."""
        return 64 if self.block else 32

    @property
    def depth(self) -> int:
        """Elements of a word; of split ones words for each element."""
        return 1 if self.split else self.bits // (8 if self.left in ("s8", "u8") else 16)

    @property
    def parts(self) -> int:
        """Parts of an element, each in words of its own."""
        return SPLIT_PARTS if self.split else 1

    @property
    def products(self) -> tuple[tuple[int, int], ...]:
        """The parts of the left and of the right operand's elements that are multiplied, in order: each time only one
        changes."""
        return ((0, 0), (0, 1), (1, 1), (1, 0)) if self.split else ((0, 0),)


_INTEGERS = ("s8", "u8")
KINDS = {
    **{f"{a}{b}": WordKind(a, b, "i32") for a in _INTEGERS for b in _INTEGERS},
    "bf16": WordKind("bf16", "bf16", "f32"),
    "bf16_odd": WordKind("bf16", "bf16", "f32", odd=True),
    **{f"matrix_{a}{b}": WordKind(a, b, "i32", True) for a in _INTEGERS for b in _INTEGERS},
    "matrix_bf16": WordKind("bf16", "bf16", "f32", True),
    "matrix_f16": WordKind("f16", "f16", "f32", True),
    "matrix_split_f16": WordKind("f16", "f16", "f32", True, split=True),
    **{f"block_{a}{b}": WordKind(a, b, "i32", block=True) for a in _INTEGERS for b in _INTEGERS},
    "block_bf16_odd": WordKind("bf16", "bf16", "f32", block=True, odd=True),
}
"""Every kind by its name."""
