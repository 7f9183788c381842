"""Where elements of an access lie beside one another in memory, and along which axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue

from ..analysis.piecewise import breaks_of, is_pattern
from ..dialect import AccessOp, DotOp, LoadOp, RangeOp, TensorArgumentType, axes_of
from .item_widths import bytes_of
from .loops import FAR, Axes, BesideRows, LoopAccess

TouchOf = Callable[[AccessOp], LoopAccess]
"""What an access does to memory."""
MOST_APART = 4
"""Elements between neighbouring lanes, up to which whole vectors are loaded."""


def is_found(offset: SSAValue) -> bool:
    """Whether positions have indices of their own: those of a tile that is not contiguous."""
    return isinstance(offset.type, TensorType) and breaks_of(offset) is None and not is_pattern(offset)


def apart_along(op: AccessOp, dimension: int, strides: Sequence[int] = ()) -> tuple[str, int] | None:
    """The axis along which an access takes every second to fourth element, or repeats elements, and how many vectors it
    loads for one. `dimension`: the one whose elements are side by side; `strides`: of all, where they are known."""
    offset, terms = op.offset_of(dimension), op.index.data[dimension].terms
    if offset is not None and axes_of(offset):
        patterns = [each for each in op.offsets if axes_of(each) == axes_of(offset)]
        return (axes_of(offset)[0], 1) if is_pattern(offset) and patterns == [offset] else None
    if not terms and dimension == len(op.index) - 1:
        return _apart_before_numbers(op, strides)
    return next(((axis, abs(factor)) for axis, factor in terms if 1 < abs(factor) <= MOST_APART), None)


def _apart_before_numbers(op: AccessOp, strides: Sequence[int]) -> tuple[str, int] | None:
    """The same of an access to one element of the last dimensions, whose sizes are numbers, such as of pairs."""
    type_ = op.base.type
    sizes = type_.shape if isinstance(type_, TensorArgumentType) else ()
    number, apart = len(sizes) - 1, 1
    while number > 0 and isinstance(size := sizes[number], int) and not op.index.data[number].terms:
        number, apart = number - 1, apart * size
        if strides and strides[number] != apart:
            return None
    offset = op.offset_of(number) if sizes else None
    if offset is not None and axes_of(offset):
        return None
    terms = op.index.data[number].terms if apart > 1 else ()
    return next(((axis, apart * abs(f)) for axis, f in terms if 1 < apart * abs(f) <= MOST_APART), None)


def run_along(op: AccessOp, dimension: int) -> str | None:
    """The axis, or range, along which an access moves one element at a time through a dimension."""
    offset = op.offset_of(dimension)
    if offset is not None and axes_of(offset) and not is_found(offset):
        contiguous = not op.index.data[dimension].terms and breaks_of(offset) is not None
        return axes_of(offset)[0] if contiguous else None
    found = axes_of(offset) if offset is not None and isinstance(offset.type, TensorType) else ()
    units = [
        axis for axis, coefficient in op.index.data[dimension].terms if abs(coefficient) == 1 and axis not in found
    ]
    if found:
        return next(iter(units), None)
    ranged = range_axes(offset) if offset is not None else ()
    return next(iter((*units, *ranged)), None)


def spread_along(op: AccessOp, dimension: int) -> tuple[str, int] | None:
    """The axis along which an access skips fewest elements of a dimension, with its coefficient."""
    if op.offset_of(dimension) is not None and isinstance(op.offset_of(dimension).type, TensorType):  # type: ignore[union-attr]
        return None
    steps = [(abs(coefficient), axis) for axis, coefficient in op.index.data[dimension].terms if abs(coefficient) > 1]
    return min(steps)[::-1] if steps else None


def near_along(op: AccessOp, fast: int, strides: Sequence[int]) -> tuple[str, int] | None:
    """The axis along which the next row of an access is nearest, and bytes from one row to the next, of `FAR`
    elements' at most: 0 where each begins at the end of the one before. `fast`: the dimension that rows lie along."""
    others = [number for number, index in enumerate(op.index) if number != fast and index.terms]
    if not others:
        return None
    nearest = min(others, key=lambda number: min(abs(strides[number]), FAR)) if strides else others[-1]
    terms = op.index.data[nearest].terms
    if len(terms) != 1 or abs(terms[0][1]) != 1 or op.offset_of(nearest) is not None:
        return None
    return terms[0][0], min(abs(strides[nearest]), FAR) * bytes_of(op.memory.element) if strides else 0


def range_axes(offset: SSAValue) -> Axes:
    """The sequential loops whose position an offset is computed from."""
    if isinstance(offset, BlockArgument):
        loop = offset.block.parent_op()
        return (loop.axis.data,) if isinstance(loop, RangeOp) and loop.position is offset else ()
    operands = offset.owner.operands if isinstance(offset.owner, Operation) else ()
    return tuple(dict.fromkeys(axis for operand in operands for axis in range_axes(operand)))


def beside_rows(value: SSAValue, touch_of: TouchOf) -> BesideRows | None:
    """What a dot multiplies with a value, where it takes both from memory without masks, which take registers too."""
    uses = list(value.uses)
    if len(uses) != 1 or not isinstance(uses[0].operation, DotOp) or uses[0].index > 1:
        return None
    dot = uses[0].operation
    other = dot.operands[1 - uses[0].index]
    loads = [each.owner for each in (value, other) if isinstance(each.owner, LoadOp) and len(list(each.uses)) == 1]
    if len(loads) < 2 or any(load.mask is not None or load.guarded_dimensions for load in loads):
        return None
    touch, contracted = touch_of(loads[1]), dot.axis.data
    rows = tuple(axis for axis in axes_of(other) if axis != contracted)
    return BesideRows(contracted, touch.place, rows, touch.home is None and rows == (touch.run,))
