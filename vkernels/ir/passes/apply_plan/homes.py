"""Memory for values that cross phases in chunks."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, IntegerType, StringAttr, i64
from xdsl.ir import Attribute, SSAValue

from ...dialect import BufferOp, BufferType, IndexAttr, LoadOp, ScratchOp, ScratchType, StoreOp, axes_of, element_of
from ...plan import Home
from .frames import Frame
from .work import Work


def memory_of(work: Work, home: SSAValue) -> SSAValue:
    """The memory of a home, made at the start of the launch when first asked for."""
    found = work.homes.get(home)
    if found is None:
        assert work.launch is not None
        label = home.name_hint or "value"
        shape = [work.axes[axis].capacity(label) for axis in axes_of(home)]
        found = make_memory(work.launch, label, shape, element_of(home), work.schedule.homes[home])
        work.homes[home] = found
    return found


def make_memory(launch: Frame, label: str, shape: Sequence[int], element: Attribute, home: Home) -> SSAValue:
    """Memory of one program at the top of a launch: on chip for `shared`, else swap space."""
    op = (
        ScratchOp(label, ScratchType(shape, element))
        if home is Home.SHARED
        else BufferOp(label, [], BufferType(shape, element))
    )
    made = launch.add(op)
    made.name_hint = label
    return made


def load_home(work: Work, frame: Frame, home: SSAValue, value: SSAValue) -> SSAValue:
    """This chunk of a value from its home. Homes hold whole chunks, so nothing is masked."""
    memory = memory_of(work, home)
    offsets, properties = _access(work, frame, value)
    made = LoadOp.create(
        operands=[memory, *offsets], properties=properties, result_types=[work.mapped_type(value.type)]
    )
    made.results[0].name_hint = value.name_hint
    return frame.add(made)


def store_home(work: Work, frame: Frame, home: SSAValue, value: SSAValue, made: SSAValue) -> None:
    """Put this chunk of a value into its home."""
    memory = memory_of(work, home)
    offsets, properties = _access(work, frame, value)
    properties["operandSegmentSizes"] = DenseArrayBase.from_list(IntegerType(32), [1, 1, len(offsets), 0, 0])
    frame.block.add_op(StoreOp.create(operands=[made, memory, *offsets], properties=properties))


def _access(work: Work, frame: Frame, value: SSAValue) -> tuple[list[SSAValue], dict[str, Attribute]]:
    """Offsets and properties of an elementwise access: each axis at its own position, tile axes from 0."""
    offsets: list[SSAValue] = []
    indices: list[IndexAttr] = []
    for axis in axes_of(value):
        base = None if work.axes[axis].is_tile else frame.span(axis).base
        indices.append(IndexAttr([(axis, 1)], -1 if base is None else len(offsets)))
        if base is not None:
            offsets.append(base)
    return offsets, {
        "index": ArrayAttr(indices),
        "within": ArrayAttr[StringAttr]([]),
        "guarded": DenseArrayBase.from_list(i64, []),
        "operandSegmentSizes": DenseArrayBase.from_list(IntegerType(32), [1, len(offsets), 0, 0]),
    }
