"""Homes: memory for values that cross phases in chunks, with their loads and stores."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, DenseArrayBase, IntegerType, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue

from ...analysis.axes import MappedAxis
from ...dialect import (
    BufferOp,
    BufferType,
    IndexAttr,
    LoadOp,
    ScratchOp,
    ScratchType,
    StoreOp,
    arith,
    axes_of,
    element_of,
    sizes_of,
    tile_type,
)
from ...errors import PlanError
from ...plan import Home
from .find_words import HomeOfWords
from .frames import LoopFrame
from .mapping_state import MappingState


def memory_of(state: MappingState, home: SSAValue) -> SSAValue:
    """The memory of a home, made on first use: in the launch, or at the top level if it outlasts launches."""
    label, words = home.name_hint or "value", state.word_homes.get(home)
    element = element_of(home) if words is None else words.element
    if home in state.lasting:
        return lasting(state, home, label, home_axes(state, home), element, words)
    if home not in state.homes:
        kind = state.schedule.homes[home]
        state.homes[home] = make_memory(state, label, home_axes(state, home), element, kind, words)
    return state.homes[home]


def home_axes(state: MappingState, value: SSAValue) -> list[str]:
    """The dimensions of a value's home: its axes, the one along the lanes last, where vectors are contiguous."""
    return sorted(axes_of(value), key=lambda axis: axis == state.plan.lanes)


def make_memory(
    state: MappingState, label: str, shape: Sequence[int | str], element: Attribute, home: Home,
    words: HomeOfWords | None = None,
) -> SSAValue:  # fmt: skip
    """Memory of one program at the top of the launch, with numbers and axes as dimensions: on chip, or swap space.
    `words`: what it holds in place of elements.

    Raises `PlanError` for on-chip memory along an axis whose extent facts do not give.
    """
    assert state.launch is not None
    sizes = [d if isinstance(d, int) else _elements(state.axes[d], home, words) for d in shape]
    unknown = [d for d, size in zip(shape, sizes, strict=True) if size is None]
    op: Operation
    if home is not Home.SHARED:
        lengths = [_length_of(state, str(axis), words) for axis in unknown]
        op = BufferOp(label, lengths, BufferType([DYNAMIC_INDEX if n is None else n for n in sizes], element))
    elif unknown:
        raise PlanError(
            f"{label} needs shared memory for all of axis {unknown[0]}: facts must give its extent or a capacity,"
            f" or {label} kept in memory",
            about=label,
        )
    else:
        op = ScratchOp(label, ScratchType([n for n in sizes if n is not None], element))
    made = state.launch.add(op)
    made.name_hint = label
    return made


def _elements(axis: MappedAxis, home: Home, words: HomeOfWords | None) -> int | None:
    """The elements of a home along an axis; swap space has no more than the call needs."""
    found = axis.capacity if home is Home.SHARED else axis.length
    return found if found is None or words is None or words.axis != axis.name else found // words.depth


def _length_of(state: MappingState, axis: str, words: HomeOfWords | None) -> SSAValue:
    """The same, at the top level."""
    found = state.length_of(axis)
    if words is None or words.axis != axis:
        return found
    return state.top.combined(arith.FloorDivSIOp, found, state.top.number(words.depth))


def lasting(
    state: MappingState, value: SSAValue, label: str, shape: Sequence[int | str], element: Attribute,
    words: HomeOfWords | None = None,
) -> SSAValue:  # fmt: skip
    """Memory of every program that outlasts launches, made at the top level on first use."""
    found = state.lasting[value]
    if found is None:
        sizes = [state.top.number(d) if isinstance(d, int) else _length_of(state, d, words) for d in shape]
        found = state.lasting[value] = state.buffer_for_programs(label, sizes, element, value)
        found.name_hint = label
    return found


def load_home(state: MappingState, frame: LoopFrame, home: SSAValue, value: SSAValue) -> SSAValue:
    """Load this chunk of a value from its home."""
    made = load_chunk(state, frame, value, memory_of(state, home), home)
    made.name_hint = value.name_hint
    return made


def store_home(state: MappingState, frame: LoopFrame, home: SSAValue, value: SSAValue, made: SSAValue) -> None:
    """Store this chunk of a value in its home."""
    store_chunk(state, frame, value, memory_of(state, home), made, home)


def load_chunk(
    state: MappingState, frame: LoopFrame, value: SSAValue, memory: SSAValue, home: SSAValue | None = None
) -> SSAValue:
    """Load this chunk of a value from memory like a home's, which holds whole chunks: nothing is masked. `home`: what
    names the memory, if it may outlast launches."""
    offsets, properties = _access(state, frame, home, value)
    type_, words = state.mapped_type(value.type), _words_of(state, home)
    if words is not None:
        sizes = {axis: n // (words.depth if axis == words.axis else 1) for axis, n in sizes_of(type_).items()}
        type_ = tile_type(words.element, sizes, sizes.values())
    return frame.add(LoadOp.create(operands=[memory, *offsets], properties=properties, result_types=[type_]))


def store_chunk(
    state: MappingState,
    frame: LoopFrame,
    value: SSAValue,
    memory: SSAValue,
    made: SSAValue,
    home: SSAValue | None = None,
) -> None:
    """Store this chunk of a value in memory like a home's."""
    offsets, properties = _access(state, frame, home, value)
    properties["operandSegmentSizes"] = DenseArrayBase.from_list(IntegerType(32), [1, 1, len(offsets), 0, 0])
    frame.block.add_op(StoreOp.create(operands=[made, memory, *offsets], properties=properties))


def _access(
    state: MappingState, frame: LoopFrame, home: SSAValue | None, value: SSAValue
) -> tuple[list[SSAValue], dict[str, Attribute]]:
    """Offsets and properties of an access at each axis's own position; tile axes start at 0."""
    offsets, indices = ([], []) if home is None else first_indices(state, home)
    words = _words_of(state, home)
    for axis in home_axes(state, value):
        base = None if state.axes[axis].is_tile else frame.span(axis).base
        if base is not None and words is not None and axis == words.axis:
            base = frame.combined(arith.FloorDivSIOp, base, frame.number(words.depth))
        indices.append(IndexAttr([(axis, 1)], -1 if base is None else len(offsets)))
        if base is not None:
            offsets.append(base)
    return offsets, {
        "index": ArrayAttr(indices),
        "within": ArrayAttr[StringAttr]([]),
        "guarded": DenseArrayBase.from_list(i64, []),
        "operandSegmentSizes": DenseArrayBase.from_list(IntegerType(32), [1, len(offsets), 0, 0]),
    }


def _words_of(state: MappingState, home: SSAValue | None) -> HomeOfWords | None:
    return None if home is None else state.word_homes.get(home)


def first_indices(state: MappingState, base: SSAValue) -> tuple[list[SSAValue], list[IndexAttr]]:
    """Offsets and indices before the memory's own dimensions: the program's part of memory that outlasts launches."""
    if base not in state.lasting:
        return [], []
    offsets = [offset for _, offset in state.program_index(base) if offset is not None]
    return offsets, [IndexAttr([], number) for number in range(len(offsets))]
