"""Memory for values that cross phases in chunks."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DYNAMIC_INDEX, ArrayAttr, DenseArrayBase, IntegerType, StringAttr, i64
from xdsl.ir import Attribute, Operation, SSAValue

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
)
from ...errors import PlanError
from ...plan import Home
from .frames import Frame
from .work import Work


def memory_of(work: Work, home: SSAValue) -> SSAValue:
    """The memory of a home, made at the start of the launch when first asked for."""
    found = work.homes.get(home)
    if found is None:
        assert work.launch is not None
        label = home.name_hint or "value"
        found = make_memory(work, label, axes_of(home), element_of(home), work.schedule.homes[home])
        work.homes[home] = found
    return found


def make_memory(work: Work, label: str, shape: Sequence[int | str], element: Attribute, home: Home) -> SSAValue:
    """Memory of one program at the top of the launch, its dimensions numbers and axes: on chip if `shared`, else swap.

    Raises `PlanError` for memory on chip along an axis whose extent facts do not give.
    """
    assert work.launch is not None
    sizes = [d if isinstance(d, int) else work.axes[d].capacity for d in shape]
    unknown = [d for d, size in zip(shape, sizes, strict=True) if size is None]
    op: Operation
    if home is not Home.SHARED:
        lengths = [_length(work, str(axis)) for axis in unknown]
        op = BufferOp(label, lengths, BufferType([DYNAMIC_INDEX if n is None else n for n in sizes], element))
    elif unknown:
        raise PlanError(
            f"{label} needs shared memory for all of axis {unknown[0]}: its extent must be among the facts' sizes,"
            f" or {label} kept in memory"
        )
    else:
        op = ScratchOp(label, ScratchType([n for n in sizes if n is not None], element))
    made = work.launch.add(op)
    made.name_hint = label
    return made


def _length(work: Work, name: str) -> SSAValue:
    """The elements of memory that an axis takes, computed at the top level: its extent in whole chunks."""
    axis, top = work.axes[name], work.top
    extent = top.find(axis.extent)
    assert extent is not None, "extents are computed at the top level"
    if axis.exact:
        return extent
    size = top.number(axis.size)
    return top.combined(arith.MuliOp, top.combined(arith.CeilDivSIOp, extent, size), size)


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
