"""A kernel cut into several launches: values that cross between them are kept in buffers that outlast launches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from xdsl.ir import Block, Operation, SSAValue

from ...analysis.accesses import inputs_of
from ...analysis.grid_phases import ends_of_launches, grid_phases
from ...analysis.launch_axes import launch_axes
from ...analysis.parallel_axes import parallel_axes
from ...analysis.schedule.find_online import check_launches
from ...analysis.schedule.nests import label_of
from ...dialect import (
    AccessOp,
    DotOp,
    KernelOp,
    LoadOp,
    PhaseOp,
    ReductionOp,
    ScanOp,
    ScratchOp,
    StoreOp,
    axes_of,
    element_of,
)
from ...errors import PlanError
from ...plan import Home, Plan
from .access import value_in
from .barriers import Hazards
from .emit import emit_here
from .frames import LoopFrame
from .launches import emit_launch
from .mapping_state import MappingState
from .planned_kernel import PlannedKernel
from .sizes import values_outside_launches
from .structure import emit_ops


@dataclass
class _Part:
    """The work of one launch: a part of the kernel's block, named after its last phase, and its inputs from before.

    `kept`: values without chunked axes, which the launch that computes them stores. `again`: items that are recomputed
    instead. `homes`: of values with chunked axes. `scratchpads`: those that it accesses.
    """

    label: str
    ops: list[Operation]
    kept: set[SSAValue] = field(default_factory=set)
    again: set[Operation] = field(default_factory=set)
    homes: set[SSAValue] = field(default_factory=set)
    scratchpads: set[SSAValue] = field(default_factory=set)


def check_cuts(planned: PlannedKernel) -> None:
    """Raise `PlanError` where a cut is not after a phase of the kernel's own block, or a value cannot cross it; and
    without a cut where all programs wait for one another."""
    missing = [label for label in grid_phases(planned.kernel) if label not in planned.plan.launches]
    if missing:
        raise PlanError(
            f"the plan begins no launch after {missing[0]}, where all programs wait for one another",
            about=missing[0],
            help=f'Have it in the plan: `launches=("{missing[0]}",)`.',
        )
    if planned.plan.launches:
        _lasting(planned, _cut(planned))
    _check_parallel(planned)


def _check_parallel(planned: PlannedKernel) -> None:
    """Raise `PlanError` for an axis of which no launch can give chunks to programs of their own."""
    able = parallel_axes(planned.kernel).of(planned.plan.launches)
    for name in planned.plan.parallel:
        if not any(name in axes for axes in able):
            why = "the plan has one launch" if len(able) < 2 else "no launch is parallel along it"
            raise PlanError(
                f"the plan gives chunks of {name} to programs of their own: {why}",
                about=name,
                help="A launch is parallel along a whole axis that no reduction of it goes along and all that it"
                " leaves has.",
            )


def emit_cut(state: MappingState) -> None:
    """Emit a launch for each part that the plan cuts the kernel into."""
    parts = _cut(state)
    state.lasting.update(dict.fromkeys(_lasting(state, parts)))
    launched = launch_axes(state.kernel)
    tiles, lacking = launched.of(state.plan.launches), launched.lacking(state.plan.launches)
    parallel = parallel_axes(state.kernel).of(state.plan.launches)
    state.along.update(_along(parts, tiles))
    buffers: dict[SSAValue, SSAValue] = {}
    for number, part in enumerate(parts):
        wanted = {value for later in parts[number + 1 :] for value in later.kept}
        ops = [op for top in part.ops for op in (top.body.block.ops if isinstance(top, PhaseOp) else (top,))]
        made = [value for op in ops for value in op.results if value in wanted]
        for value in made:
            sizes = [state.top.number(state.axes[axis].size) for axis in axes_of(value)]
            buffers[value] = state.buffer_for_programs(label_of(value), sizes, element_of(value), value)
        state.tiles = tiles[number]
        divided = [
            axis for name, axis in state.axes.items() if name in state.plan.parallel and name in parallel[number]
        ]
        # What later launches compute again is kept without the axis: programs along it would store it all at once.
        divided = [axis for axis in divided if axis.is_chunked and all(axis.name in axes_of(v) for v in made)]
        maybe_empty = [axis for name in lacking[number] if not (axis := state.axes[name]).known]
        emit_launch(state, part.label, divided, partial(_fill, state, part, made, buffers), maybe_empty)
    state.tiles = None


def _cut(planned: PlannedKernel) -> list[_Part]:
    """The parts, each with its inputs from the parts before it."""
    parts = _parts(planned.kernel, planned.plan)
    number_of = {op: number for number, part in enumerate(parts) for top in part.ops for op in top.walk()}
    outside = values_outside_launches(planned)
    for number, part in enumerate(parts):
        _find_inputs(planned, part, number, number_of, outside)
    check_launches(planned.schedule.online, number_of.__getitem__)
    return parts


def _lasting(planned: PlannedKernel, parts: Sequence[_Part]) -> list[SSAValue]:
    """The homes and scratchpads that several launches use."""
    homes = list(dict.fromkeys(home for part in parts for home in part.homes))
    for home in homes:
        if planned.schedule.homes[home] is Home.SHARED:
            raise PlanError(
                f"{label_of(home)} crosses launches, which shared memory does not outlast", about=label_of(home)
            )
    return [*homes, *_lasting_scratchpads(planned, parts)]


def _along(parts: Sequence[_Part], tiles: Sequence[frozenset[str]]) -> dict[SSAValue, frozenset[str]]:
    """For what outlasts launches, the tile axes of the programs that make it."""
    made = {op: number for number, part in enumerate(parts) for top in part.ops for op in top.walk()}
    values = {value for part in parts for value in (*part.kept, *part.homes)}
    pads = {pad: tiles[number] for number, part in enumerate(parts) for pad in part.scratchpads}
    return {**pads, **{value: tiles[made[_owner(value)]] for value in values}}


def _parts(kernel: KernelOp, plan: Plan) -> list[_Part]:
    cuts = ends_of_launches(kernel)
    for label in plan.launches:
        if label not in cuts.values():
            inside = label in {op.phase.data for op in kernel.walk() if isinstance(op, PhaseOp)}
            why = "is inside a loop or conditional, which one launch runs" if inside else "is none of its phases"
            raise PlanError(
                f"the plan begins a launch of {kernel.sym_name.data} after {label}, which {why}", about=label
            )
    parts = [_Part("", [])]
    for op in kernel.body.block.ops:
        parts[-1].ops.append(op)
        parts[-1].label = cuts.get(op, parts[-1].label)
        if cuts.get(op) in plan.launches:
            parts.append(_Part("", []))
    for part in parts:
        part.label = part.label or kernel.sym_name.data
    return [part for part in parts if any(op.regions for op in part.ops)]


def _owner(value: SSAValue) -> Operation:
    found = value.owner.parent_op() if isinstance(value.owner, Block) else value.owner
    assert found is not None, "part of the kernel"
    return found


def _find_inputs(
    planned: PlannedKernel, part: _Part, number: int, number_of: dict[Operation, int], outside: set[SSAValue]
) -> None:
    """Find a part's inputs from the parts before it, including those of recomputed items."""
    analysis, schedule = planned.analysis, planned.schedule
    todo = [operand for top in part.ops for op in top.walk() for operand in op.operands]
    seen: set[SSAValue] = set()
    while todo:
        value = analysis.source(todo.pop())
        owner = _owner(value)
        if isinstance(owner, ScratchOp):
            part.scratchpads.add(value)
            continue
        if value in seen or value in outside or number_of[owner] >= number:
            continue
        seen.add(value)
        home = schedule.home_of(value)
        item = analysis.item_of(owner)
        if home is not None:
            part.homes.add(home)
        elif analysis.chunks_of_value(value):
            todo += inputs_of(item)
        elif item.regions or isinstance(item, AccessOp | ReductionOp | DotOp | ScanOp):
            part.kept.add(value)
        else:
            part.again.add(item)
            todo += inputs_of(item)


def _lasting_scratchpads(planned: PlannedKernel, parts: Sequence[_Part]) -> Iterator[SSAValue]:
    """Scratchpads that several launches access. They are in memory, and cannot have two copies, which a loop swaps."""
    for op in planned.kernel.body.block.ops:
        if not isinstance(op, ScratchOp) or sum(op.result in part.scratchpads for part in parts) < 2:
            continue
        label = op.label.data
        if op.result in planned.schedule.copies:
            raise PlanError(f"{label} is accessed in several launches: it cannot have two copies", about=label)
        if planned.plan.homes.get(label) is Home.SHARED:
            raise PlanError(
                f"{label} is accessed in several launches, which shared memory does not outlast", about=label
            )
        yield op.result


def _fill(
    state: MappingState, part: _Part, made: Sequence[SSAValue], buffers: Mapping[SSAValue, SSAValue], frame: LoopFrame
) -> None:
    """The body of a launch: load its inputs, do its own work, store the inputs of later launches."""
    for value, buffer in buffers.items():
        if value in part.kept:
            frame.root().location = _owner(value).location
            load = LoadOp(buffer, _index(state, value), state.mapped_type(value.type))
            load.result.name_hint = value.name_hint
            frame.values[value] = frame.add(load)
    for op in sorted(part.again, key=state.analysis.position.__getitem__):
        frame.root().location = op.location
        emit_here(state, frame, op)
    emit_ops(state, frame, part.ops, Hazards())
    for value in made:
        frame.block.add_op(StoreOp(value_in(state, frame, value), buffers[value], _index(state, value)))


def _index(state: MappingState, value: SSAValue) -> list[tuple[list[tuple[str, int]], SSAValue | None]]:
    return [*state.program_index(value), *(([(name, 1)], None) for name in axes_of(value))]
