"""Registers whose lanes lie at known distances in memory: whole vectors are loaded or stored, and their lanes moved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import SSAValue

from ...analysis.piecewise import constant_in
from ...analysis.turned_rows import MOST_NEAR
from ...dialect import BroadcastOp, arith, axes_of
from .emit import LlvmEmitter, vector
from .masked import can_store, store_masked

MOST_LOADS = MOST_NEAR
"""Vectors that are loaded for one register: more would cost more than a gather."""


@dataclass(frozen=True)
class KnownLanes:
    """An index tile along the lanes: a scalar plus a number for each position."""

    base: SSAValue
    numbers: tuple[int, ...]


def known_lanes(offset: SSAValue, lanes: str | None) -> KnownLanes | None:
    """An index tile that is a scalar plus constants along the lanes; None for others."""
    op = offset.owner
    if axes_of(offset) != (lanes,) or not isinstance(op, arith.AddiOp):
        return None
    base, constants = op.lhs.owner, op.rhs.owner
    if not isinstance(constants, arith.ConstantOp):
        return None
    numbers = constants.value
    if not isinstance(base, BroadcastOp) or axes_of(base.source) or constant_in(op.rhs) is not None:
        return None
    if not isinstance(numbers, DenseIntOrFPElementsAttr):
        return None
    return KnownLanes(base.source, tuple(int(number) for number in numbers.get_values()))


def load_apart(emit: LlvmEmitter, pointer: str, offsets: Sequence[int], element: str, align: int) -> str | None:
    """Load the elements at these distances from a pointer, and nothing beyond the first and the last of them; None if
    that takes too many vectors."""
    width, first = len(offsets), min(offsets)
    places = [offset - first for offset in offsets]
    length = max(places) + 1
    if length > width * MOST_LOADS:
        return None
    start = emit.offset(pointer, first, element)
    if length == 1:
        loaded = emit.operation(f"llvm.load {start} {{alignment = {align} : i64}} : !llvm.ptr -> {element}")
        return emit.splat(loaded, element, width)
    size = min(length, width)
    starts = [*range(0, length - size, size), length - size]  # the last vector ends with the last element
    found: str | None = None
    for number, begin in enumerate(starts):
        at, type_ = emit.offset(start, begin, element), vector(element, size)
        loaded = emit.operation(f"llvm.load {at} {{alignment = {align} : i64}} : !llvm.ptr -> {type_}")
        end = starts[number + 1] if number + 1 < len(starts) else length
        here = [place - begin if begin <= place < end else None for place in places]
        if found is None:
            found = _moved(emit, loaded, here, element, size)
        else:
            found = _merged(emit, found, loaded, here, element)
    return found


def _moved(emit: LlvmEmitter, loaded: str, lanes: Sequence[int | None], element: str, size: int) -> str:
    """The lanes of a vector of `size` that are numbered."""
    return emit.shuffle(loaded, loaded, [-1 if lane is None else lane for lane in lanes], element, size)


def _merged(emit: LlvmEmitter, found: str, loaded: str, lanes: Sequence[int | None], element: str) -> str:
    """What was found, with some lanes of another vector of the same width."""
    width = len(lanes)
    chosen = [lane if new is None else width + new for lane, new in enumerate(lanes)]
    return emit.shuffle(found, loaded, chosen, element, width)


def store_apart(
    emit: LlvmEmitter, pointer: str, value: str, offsets: Sequence[int], element: str, align: int, mask: str | None
) -> bool:
    """Store at these distances from a pointer, nothing between them, where a mask allows it; whether that is done. Not
    if it takes too many vectors, or elements at one place are to follow each other."""
    width, first = len(offsets), min(offsets)
    places = [offset - first for offset in offsets]
    length = max(places) + 1
    side_by_side = length == width and mask is None
    if length > width * MOST_LOADS or len(set(places)) < width or not (side_by_side or can_store(element, width)):
        return False
    start = emit.offset(pointer, first, element)
    for begin in range(0, length, width):
        lanes = [places.index(place) if place in places else None for place in range(begin, begin + width)]
        _store_lanes(emit, emit.offset(start, begin, element), value, lanes, element, align, mask)
    return True


def _store_lanes(
    emit: LlvmEmitter, pointer: str, value: str, lanes: Sequence[int | None], element: str, align: int, mask: str | None
) -> None:
    """Store the lanes of a value that are numbered, side by side, but for gaps."""
    width = len(lanes)
    moved = emit.shuffle(value, value, [-1 if lane is None else lane for lane in lanes], element, width)
    if mask is None and None not in lanes:
        type_ = vector(element, width)
        emit.line(f"llvm.store {moved}, {pointer} {{alignment = {align} : i64}} : {type_}, !llvm.ptr")
        return
    none = emit.filled("false", "i1", width)
    given = mask or emit.filled("true", "i1", width)
    chosen = emit.shuffle(given, none, [width if lane is None else lane for lane in lanes], "i1", width)
    store_masked(emit, pointer, moved, chosen, element, width, align)
