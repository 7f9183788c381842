"""Words of f16 that are split into two bf16 each, whose sum they are: for units that take bf16.

The upper part is the bf16 next to the number, toward 0: the bits of its f32, less one, cut off. So the lower part is
never 0 but for 0, and an infinity, whose upper part is the greatest bf16, times anything else is an infinity, not NaN.
"""

from __future__ import annotations

from xdsl.dialects.builtin import f16, f32

from ...word_kinds import MATRIX_SIDE, SPLIT_ELEMENTS
from .elementwise import extend
from .emit import LlvmEmitter, vector
from .tiles import Register, RegisterTile


def split_words(emit: LlvmEmitter, first: str, second: str, width: int) -> tuple[str, str]:
    """The words of the upper and of the lower parts of f16 in the lanes of two registers: a number of the first one in
    the lowest bits."""
    (low_upper, low_lower), (high_upper, high_lower) = (_parts(emit, each, width) for each in (first, second))
    return _joined(emit, low_upper, high_upper, width), _joined(emit, low_lower, high_lower, width)


def _parts(emit: LlvmEmitter, number: str, width: int) -> tuple[str, str]:
    """The bits of a number's parts as f32."""
    words, floats = vector("i32", width), vector("f32", width)
    wide = extend(emit, number, f16, f32, width)
    bits = emit.cast("arith.bitcast", wide, "f32", "i32", width)
    less = emit.pure(f"arith.addi {bits}, {emit.filled('-1', 'i32', width)} : {words}")
    cut = emit.pure(f"arith.andi {less}, {emit.filled('-65536', 'i32', width)} : {words}")
    is_number = emit.pure(f"arith.cmpf une, {wide}, {emit.filled('0.0', 'f32', width)} : {floats}")
    upper = emit.select(is_number, cut, emit.filled("0", "i32", width), "i32", width)
    rest = emit.pure(f"arith.subf {wide}, {emit.cast('arith.bitcast', upper, 'i32', 'f32', width)} : {floats}")
    return upper, emit.cast("arith.bitcast", rest, "f32", "i32", width)


def _joined(emit: LlvmEmitter, low: str, high: str, width: int) -> str:
    type_ = vector("i32", width)
    low = emit.pure(f"arith.shrui {low}, {emit.filled('16', 'i32', width)} : {type_}")
    return emit.pure(f"arith.ori {low}, {high} : {type_}")


def split_register(emit: LlvmEmitter, tile: RegisterTile, axis: str, register: Register) -> str:
    """One register of words, of registers of elements; those along the axis hold up to 16."""
    if axis != tile.layout.lanes:
        word = register.positions[axis]
        first = word - word % SPLIT_ELEMENTS + word % MATRIX_SIDE
        rows = ({**register.positions, axis: first + n} for n in (0, MATRIX_SIDE))
        one, other = (tile.at(row, register.piece) for row in rows)
        return split_words(emit, one, other, register.width)[_part(word)]
    first = register.start - register.start % SPLIT_ELEMENTS + register.start % MATRIX_SIDE
    pieces = {start: number for number, (start, _) in enumerate(tile.layout.pieces)}
    one, other = (tile.at(register.positions, pieces[first + n]) for n in (0, MATRIX_SIDE))
    return split_words(emit, one, other, register.width)[_part(register.start)]


def _part(word: int) -> int:
    """The part of elements that a word holds."""
    return word % SPLIT_ELEMENTS // MATRIX_SIDE
