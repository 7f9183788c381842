"""Memory that programs of a split axis leave for launches after them: a value for each part of the axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...analysis.axes import MappedAxis
from ...dialect import LoadOp, StoreOp, axes_of, element_of
from .frames import LoopFrame
from .mapping_state import MappingState

Index = list[tuple[list[tuple[str, int]], SSAValue | None]]
Combine = Callable[[LoopFrame, Sequence[SSAValue], Sequence[SSAValue]], Sequence[SSAValue]]
"""Adds what combines the values of the parts so far with those of the next part."""


def make_partial(state: MappingState, axis: MappedAxis, label: str, result: SSAValue) -> None:
    """Make the buffer for a result without the split axis: [programs along each tile axis, programs of the split axis,
    the result's other axes]."""
    sizes = [axis.programs, *(state.axes[name].size for name in axes_of(result) if name != axis.name)]
    numbers = [state.top.number(size) for size in sizes]
    label = f"{label}_{result.name_hint or _name_of(result)}"
    state.partials[result] = state.buffer_for_programs(label, numbers, element_of(result))


def store_partial(state: MappingState, frame: LoopFrame, axis: MappedAxis, result: SSAValue, value: SSAValue) -> None:
    """Store this program's part."""
    frame.block.add_op(StoreOp(value, state.partials[result], _index(state, value, state.coordinates[axis.name])))


def combine_partials(
    state: MappingState, frame: LoopFrame, results: Sequence[SSAValue], initial: Sequence[SSAValue], stop: SSAValue,
    combine: Combine, at: Operation,
) -> Sequence[SSAValue]:  # fmt: skip
    """The parts before part `stop` of some results, combined in order, beginning with `initial`."""
    inner = LoopFrame(Block(arg_types=[i64, *(value.type for value in initial)]), frame)
    share, *totals = inner.block.args
    parts = [_load(state, inner, *each, share) for each in zip(results, (value.type for value in initial), strict=True)]
    inner.block.add_op(scf.YieldOp.create(operands=combine(inner, totals, parts)))
    return frame.loop((frame.number(0), stop, frame.number(1)), initial, inner.block, at.location)


def _load(state: MappingState, frame: LoopFrame, result: SSAValue, type_: Attribute, share: SSAValue) -> SSAValue:
    return frame.add(LoadOp(state.partials[result], _index(state, type_, share), type_))


def _index(state: MappingState, tile: SSAValue | Attribute, share: SSAValue) -> Index:
    return [*state.program_index(), ([], share)] + [([(name, 1)], None) for name in axes_of(tile)]


def _name_of(result: SSAValue) -> str:
    owner = result.owner
    return owner.name.removeprefix("vk.") if isinstance(owner, Operation) else "value"
