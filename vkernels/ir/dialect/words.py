"""Operations on words: neighbouring narrow elements as 32 or 64 bits, as the dot units of CPUs take them."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects.builtin import BFloat16Type, Float16Type, IntegerType, StringAttr, TensorType, f32, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import AnyAttr, VarConstraint, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ..word_kinds import KINDS, MATRIX_SIDE, SPLIT_ELEMENTS, WordKind
from .assembly import listed
from .attributes import element_of, size_text, sizes_of, tile_type
from .compute import PureOp, verify_axis, verify_contraction

_SUMS = {"i32": i32, "f32": f32}
_WORDS = {32: i32, 64: i64}
"""Words of so many bits as elements."""
_SIDES = ("left", "right")


def word_type(kind: WordKind) -> IntegerType:
    """The element type of words of a kind."""
    return _WORDS[kind.bits]


def depth_of(element: Attribute, word: Attribute = i32) -> int | None:
    """Elements of a word; None for elements that are not joined to words."""
    bits = 64 if word == i64 else 32
    if isinstance(element, BFloat16Type | Float16Type):
        return bits // 16
    return bits // 8 if isinstance(element, IntegerType) and element.width.data == 8 else None


@irdl_op_definition
class WordsOp(PureOp):
    """Neighbouring elements along `axis`, i8, bf16 or f16, joined to words of 32 or 64 bits, the first in the lowest
    bits.

    The result has the same axes, as many positions along `axis` as there are words, and elements of i32 or i64.

    With as many words of 32 bits as elements, f16 are split: x is hi + lo, exactly. hi is the bf16 next to x between x
    and 0, lo is never 0 but for 0, and both have the sign of x; an infinity is the greatest bf16 and an infinity, a NaN
    has a NaN as lo. Of each 32 elements the first 16 words hold hi, the others lo: word n of each those of elements n
    and n + 16.
    """

    name = "vk.words"

    tile = operand_def(TensorType)
    axis = prop_def(StringAttr)
    result = result_def(TensorType)

    assembly_format = "$tile `along` custom<Name>($axis) attr-dict `:` type($tile) `->` type($result)"

    def __init__(self, tile: SSAValue, axis: str, word: IntegerType = i32, is_split: bool = False):
        depth = 1 if is_split else depth_of(element_of(tile), word) or 1
        sizes = {each: size // depth if each == axis else size for each, size in sizes_of(tile).items()}
        super().__init__(
            operands=[tile],
            properties={"axis": StringAttr(axis)},
            result_types=[tile_type(word, sizes, sizes.values())],
        )

    @property
    def is_split(self) -> bool:
        """Whether each element is two parts, in words of their own."""
        return isinstance(element_of(self.tile), Float16Type) and self.result.type == self._of_parts

    @property
    def depth(self) -> int:
        """Elements of a word; 1 where they are split."""
        depth = 1 if self.is_split else depth_of(element_of(self.tile), element_of(self.result))
        assert depth is not None, "verified"
        return depth

    @property
    def _of_parts(self) -> Attribute:
        sizes = sizes_of(self.tile)
        return tile_type(i32, sizes, sizes.values())

    def verify_(self) -> None:
        verify_axis(self.axis, self.tile, "the tile's")
        if self.is_split:
            if sizes_of(self.tile)[self.axis.data] % SPLIT_ELEMENTS:
                size = size_text(sizes_of(self.tile)[self.axis.data])
                raise VerifyException(f"axis {self.axis.data} has size {size}, expected a multiple of {SPLIT_ELEMENTS}")
            return
        word = i64 if element_of(self.result) == i64 else i32
        depth = depth_of(element_of(self.tile), word)
        if depth is None:
            raise VerifyException(f"elements are {element_of(self.tile)}, expected i8, bf16 or f16")
        sizes = sizes_of(self.tile)
        if sizes[self.axis.data] < 0 or sizes[self.axis.data] % depth:
            raise VerifyException(
                f"axis {self.axis.data} has size {size_text(sizes[self.axis.data])}, expected a multiple of {depth}"
            )
        sizes[self.axis.data] //= depth
        if self.result.type != tile_type(word, sizes, sizes.values()):
            raise VerifyException(f"the result is {self.result.type}, expected {word} and a part of {self.axis.data}")


@irdl_op_definition
class WordDotOp(PureOp):
    """Products of the elements of words, summed along an axis that both have and within words, added to `sum`.

    `kind` says what the words hold: `s8s8`, `u8s8`, `s8u8` and `u8u8` four integers each (signed or unsigned in `left`,
    then in `right`) with a sum of i32, exact modulo 2^32; `bf16` and `f16` two floats each with a sum of f32. The
    result's axes are all the others of both.

    For `bf16`, positions are added in order, the second element of a word before the first, each product rounded into
    the sum. For `bf16_odd`, both products of a word are added, and that to the sum, each rounded to odd: cut off, the
    last bit set where anything was cut off. `matrix_` before a kind means a unit that multiplies matrices: `left` has
    its columns, `right` its rows, and both have a multiple of 16 words. Of each 16, it adds the products of all first
    elements in order, beginning at 0 and rounding each into their sum, does the same with the second elements, and then
    adds both sums, rounded, and that to `sum`. `matrix_split_f16` does so four times for each 32 words, the parts of as
    many elements: with hi and hi, lo of `right` and hi, lo and lo, and last hi of `right` and lo. `block_` before a
    kind means words of 64 bits, each as two of the plain kind in turn. In all float kinds f32 below 2^-126 are 0:
    operands of bf16, products and sums.
    """

    name = "vk.word_dot"

    T: ClassVar = VarConstraint("T", AnyAttr())

    left = operand_def(TensorType)
    right = operand_def(TensorType)
    sum = operand_def(T)
    axis = prop_def(StringAttr)
    kind = prop_def(StringAttr)
    passing = opt_prop_def(StringAttr)
    """`left` or `right`: the operand whose elements are not needed again soon, while the other's are. A matrix unit may
    load them past the nearest cache."""
    result = result_def(T)

    assembly_format = (
        "$left `,` $right `,` $sum `along` custom<Name>($axis) `of` custom<Name>($kind) (`passing` $passing^)? "
        "attr-dict `:` type($left) `,` type($right) `,` type($sum)"
    )

    def __init__(
        self, left: SSAValue, right: SSAValue, sum: SSAValue, axis: str, kind: str, passing: str | None = None
    ):
        side = None if passing is None else StringAttr(passing)
        super().__init__(
            operands=[left, right, sum],
            properties={"axis": StringAttr(axis), "kind": StringAttr(kind), "passing": side},
            result_types=[sum.type],
        )

    @property
    def depth(self) -> int:
        """Elements of a word."""
        return KINDS[self.kind.data].depth

    def verify_(self) -> None:
        if self.kind.data not in KINDS:
            raise VerifyException(f'kind "{self.kind.data}" is not one of {listed([*KINDS])}')
        if self.passing is not None and self.passing.data not in _SIDES:
            raise VerifyException(f'passing is "{self.passing.data}", expected {" or ".join(_SIDES)}')
        kind = KINDS[self.kind.data]
        if any(element_of(value) != word_type(kind) for value in (self.left, self.right)):
            elements = f"{element_of(self.left)} and {element_of(self.right)}"
            raise VerifyException(f"words are {word_type(kind)}, not {elements}")
        expected = _SUMS[kind.sum]
        if element_of(self.sum) != expected:
            raise VerifyException(f"the sum has elements of {element_of(self.sum)}, expected {expected}")
        verify_contraction(self.left, self.right, self.sum, self.axis)
        least = MATRIX_SIDE * kind.parts
        if kind.matrix and sizes_of(self.left)[self.axis.data] % least:
            raise VerifyException(f"a matrix unit takes a multiple of {least} words along {self.axis.data}")


__all__ = ["WordDotOp", "WordsOp", "depth_of", "word_type"]
