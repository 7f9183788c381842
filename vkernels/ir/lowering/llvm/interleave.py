"""Words whose elements are in the same lane of several registers."""

from __future__ import annotations

from .emit import LlvmEmitter, vector


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
    return emit.pure(f"llvm.bitcast {elements[0]} : {vector(element, depth * width)} to {vector('i32', width)}")
