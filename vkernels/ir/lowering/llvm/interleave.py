"""Words whose elements are in the same lane of several registers."""

from __future__ import annotations

from collections.abc import Iterable

from .emit import LlvmEmitter, vector

_LANE = 4
"""Words of 16 bytes, within which processors with longer registers shuffle bytes."""


def interleaved(emit: LlvmEmitter, elements: list[str], element: str, width: int) -> str:
    """Words whose elements are in the same lane of several registers, by shuffles of these."""
    depth, joined = len(elements), width
    while len(elements) > 1:
        lanes = [lane for pair in zip(range(joined), range(joined, 2 * joined), strict=True) for lane in pair]
        half = len(elements) // 2  # elements that are `half` apart meet last
        elements = [
            emit.shuffle(a, b, lanes, element, joined) for a, b in zip(elements[:half], elements[half:], strict=True)
        ]
        joined *= 2
    return _cast(emit, elements[0], element, depth * width, "i32", width)


def interleaved_at_once(emit: LlvmEmitter, elements: list[str], element: str, width: int) -> str:
    """The same where all of them have room in one register of several times 16 bytes: they are put there side by side,
    whole words are moved to where they are needed, and elements within 16 bytes each.

    Rows come into the register's parts as they are loaded. Then each shuffle has one operand: on x86, shuffles of two
    take several times as long. Of pairs LLVM makes one shuffle of both. Of bytes it would make one too, and many of
    that one: the fence keeps them apart.
    """
    depth, count = len(elements), len(elements) * width
    if width <= _LANE or width % _LANE:
        return interleaved(emit, elements, element, width)
    joined = width
    while len(elements) > 1:
        pairs = zip(elements[::2], elements[1::2], strict=True)
        elements = [emit.shuffle(a, b, range(2 * joined), element, joined) for a, b in pairs]
        joined *= 2
    of_row, each = width // depth, _LANE // depth  # words of a row, in all and in 16 bytes
    moved = (
        row * of_row + lane * each + n for lane in range(width // _LANE) for row in range(depth) for n in range(each)
    )
    words = _shuffled(emit, _cast(emit, elements[0], element, count, "f32", width), moved, "f32", width)
    if depth == _LANE:
        type_ = vector("f32", width)
        words = emit.pure(f'llvm.call_intrinsic "llvm.arithmetic.fence.v{width}f32"({words}) : ({type_}) -> {type_}')
    run = _LANE  # elements of a row in 16 bytes
    within = (
        lane * _LANE * depth + row * run + n
        for lane in range(width // _LANE)
        for n in range(run)
        for row in range(depth)
    )
    found = _shuffled(emit, _cast(emit, words, "f32", width, element, count), within, element, count)
    return _cast(emit, found, element, count, "i32", width)


def _shuffled(emit: LlvmEmitter, value: str, lanes: Iterable[int], element: str, width: int) -> str:
    return emit.shuffle(value, value, [*lanes], element, width)


def _cast(emit: LlvmEmitter, value: str, element: str, count: int, to: str, width: int) -> str:
    return emit.pure(f"llvm.bitcast {value} : {vector(element, count)} to {vector(to, width)}")
