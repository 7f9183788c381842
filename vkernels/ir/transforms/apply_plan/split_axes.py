"""A whole axis split over programs: a launch a phase, each beginning with the combined partial results before it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from xdsl.dialects import scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Operation, Region, SSAValue

from ...analysis.accesses import clash, elementwise, has_effect
from ...analysis.axes import MappedAxis
from ...analysis.schedule.nests import Nest, all_items, label_of
from ...dialect import DotOp, LoadOp, PhaseOp, ScanOp, ScratchOp, StoreOp, YieldOp, axes_of, element_of
from ...errors import PlanError
from ...plan import Home
from .access import value_in
from .barriers import Hazards
from .combining import combine, neutral_of
from .emit import emit_here
from .frames import LoopFrame, filled
from .launches import emit_launch
from .mapping_state import MappingState
from .nests import emit_nest
from .planned_kernel import PlannedKernel
from .programs import buffer_for_programs, program_index
from .structure import emit_beside, emit_phase


def emit_split(state: MappingState, axis: MappedAxis) -> None:
    """The launches of a kernel one of whose axes is split.

    A phase's loops along the axis are a launch over the programs that share it; what else the phase does, is another,
    over the tile axes alone.
    """
    phases = [op for op in state.analysis.structures if isinstance(op, PhaseOp)]
    state.lasting.update(dict.fromkeys([*state.schedule.homes, *_scratchpads(state)]))
    for number, phase in enumerate(phases):
        before, label, has_plain = phases[:number], phase.phase.data, _has_plain_effects(state, phase)
        for is_along, group in groupby(state.schedule.nests[phase], lambda nest: axis.name in nest.axes):
            nests = list(group)
            if is_along:
                for nest in nests:
                    _make_partials(state, axis, nest.reductions)
                emit_launch(state, label, (axis,), partial(_share, state, axis, phase, before, nests))
            elif has_plain or any(nest.effects or nest.stores for nest in nests):
                emit_launch(state, label, (), partial(_rest, state, axis, phase, before, nests, has_plain))
                has_plain = False
        if has_plain:
            emit_launch(state, label, (), partial(_rest, state, axis, phase, before, [], True))


def check_split(planned: PlannedKernel) -> None:
    """Raise `PlanError` where an axis cannot be split, because what crosses phases cannot outlast a launch, say."""
    axis = planned.split_axis
    if axis is None:
        return
    if planned.plan.launches:
        raise PlanError(f"the plan splits axis {axis.name} over programs, which makes launches; it names others")
    if planned.plan.online:
        online = planned.plan.online[0]
        raise PlanError(f"the plan goes online along {online} and splits {axis.name}: not both at once yet")
    analysis, schedule = planned.analysis, planned.schedule
    if any(not isinstance(op, PhaseOp) for op in analysis.structures):
        raise PlanError(f"axis {axis.name} cannot be split over programs: a loop or conditional holds several phases")
    kept = schedule.homes | {pad: planned.plan.homes.get(label_of(pad), Home.MEMORY) for pad in _scratchpads(planned)}
    for home, kind in kept.items():
        if kind is Home.SHARED:
            raise PlanError(
                f"axis {axis.name} is split over programs, which makes launches: shared memory, the home of"
                f" {label_of(home)}, does not outlast one"
            )
    written = {access.base for item in analysis.phase for access in analysis.accesses(item) if access.writes}
    for item in analysis.phase:
        repeated = axis.name not in analysis.chunks(item)
        for access in analysis.accesses(item) if repeated else ():
            if not access.writes and access.base in written:
                name = access.base.name_hint or "a tensor"
                raise PlanError(f"axis {axis.name} cannot be split over programs: {name} is read again and written")
    for nest in (nest for nests in schedule.nests.values() for nest in nests):
        for op in nest.effects:
            if axis.name in analysis.chunks(op) and any(
                axis.name not in a.axes for a in analysis.accesses(op) if a.writes
            ):
                raise PlanError(f"axis {axis.name} cannot be split over programs: a store lacks it")
    for phase in (op for op in analysis.structures if isinstance(op, PhaseOp)):
        nests = [nest for nest in schedule.nests[phase] if axis.name in nest.axes]
        _check_computed_again(planned, axis, nests)
        _check_meetings(planned, axis, nests)


def _check_computed_again(planned: PlannedKernel, axis: MappedAxis, nests: Sequence[Nest]) -> None:
    """Raise `PlanError` where a program, which sees its part of the axis, would need all of it."""
    for item in (item for nest in nests for item in all_items(planned.schedule, nest)):
        if isinstance(item, ScanOp) and item.axis.data == axis.name:
            raise PlanError(
                f"a scan along {axis.name} needs all that comes before: the axis cannot be split over programs"
            )
        if planned.analysis.is_chunk_reduction(item) and item.axis.data == axis.name:
            raise PlanError(
                f"axis {axis.name} cannot be split over programs: a reduction along it is computed again in each"
            )


def _scratchpads(planned: PlannedKernel) -> list[SSAValue]:
    return [op.result for op in planned.analysis.kernel.body.block.ops if isinstance(op, ScratchOp)]


def _check_meetings(planned: PlannedKernel, axis: MappedAxis, nests: Sequence[Nest]) -> None:
    """Raise `PlanError` where programs of one launch would meet in memory, even in what they compute again."""
    items = {item for nest in nests for item in (*all_items(planned.schedule, nest), *nest.effects)}
    found = [access for item in items for access in planned.analysis.accesses(item)]
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            if clash(one, other) and not elementwise(one, other, [axis.name]):
                name = label_of(one.base)
                raise PlanError(
                    f"axis {axis.name} cannot be split over programs: {name} is written where others read it"
                )


def _has_plain_effects(state: MappingState, phase: PhaseOp) -> bool:
    analysis = state.analysis
    return any(has_effect(item) and not analysis.chunks(item) for item in phase.body.block.ops)


def _share(
    state: MappingState,
    axis: MappedAxis,
    phase: PhaseOp,
    before: Sequence[PhaseOp],
    nests: Sequence[Nest],
    frame: LoopFrame,
) -> None:
    """What one program does of a phase: its part of the axis."""
    _restore(state, frame, axis, before)
    _emit_plain(state, frame, phase)
    _emit_nests(state, frame, nests)
    for op in (op for nest in nests for op in nest.reductions):
        _store_partial(state, frame, axis, op)


def _rest(
    state: MappingState,
    axis: MappedAxis,
    phase: PhaseOp,
    before: Sequence[PhaseOp],
    nests: Sequence[Nest],
    has_plain: bool,
    frame: LoopFrame,
) -> None:
    """What a phase does that has nothing to do with the axis; `has_plain`: effects without loops too."""
    _restore(state, frame, axis, before)
    if has_plain:
        emit_phase(state, frame, phase, Hazards(), nests)
        return
    _emit_plain(state, frame, phase)
    _emit_nests(state, frame, nests)


def _emit_nests(state: MappingState, frame: LoopFrame, nests: Sequence[Nest]) -> None:
    hazards = Hazards()
    for nest in nests:
        hazards.before_nest(state, frame, nest)
        emit_nest(state, frame, nest)


def _restore(state: MappingState, frame: LoopFrame, axis: MappedAxis, before: Sequence[PhaseOp]) -> None:
    """Values without chunked axes as they were after earlier phases, reductions along the axis combined."""
    for op in state.analysis.kernel.body.block.ops:
        if not isinstance(op, PhaseOp):
            emit_beside(state, frame, op)
        elif op in before:
            _emit_plain(state, frame, op)
            for nest in state.schedule.nests[op]:
                if axis.name in nest.axes:
                    for reduction in nest.reductions:
                        frame.values[reduction.results[0]] = _combined(state, frame, axis, reduction)
                elif nest.reductions:
                    emit_nest(state, frame, Nest(nest.axes, nest.reductions))


def _emit_plain(state: MappingState, frame: LoopFrame, phase: PhaseOp) -> None:
    """A phase's items that need no loop and have no effect."""
    for item in phase.body.block.ops:
        if not isinstance(item, YieldOp) and not state.analysis.chunks(item) and not has_effect(item):
            frame.root().location = item.location
            emit_here(state, frame, item)


# Partial results: [programs along each tile axis, programs of the split axis, the result's own axes].


def _make_partials(state: MappingState, axis: MappedAxis, ops: Sequence[Operation]) -> None:
    for op in ops:
        result = op.results[0]
        sizes = [axis.programs, *(state.axes[name].size for name in axes_of(result))]
        label = f"partial_{result.name_hint or op.name.removeprefix('vk.')}"
        numbers = [state.top.number(size) for size in sizes]
        state.partials[result] = buffer_for_programs(state, label, numbers, element_of(result))


def _index(state: MappingState, op: Operation, share: SSAValue) -> list[tuple[list[tuple[str, int]], SSAValue | None]]:
    return [*program_index(state), ([], share)] + [([(name, 1)], None) for name in axes_of(op.results[0])]


def _store_partial(state: MappingState, frame: LoopFrame, axis: MappedAxis, op: Operation) -> None:
    value = value_in(state, frame, op.results[0])
    index = _index(state, op, state.coordinates[axis.name])
    frame.block.add_op(StoreOp(value, state.partials[op.results[0]], index))


def _combined(state: MappingState, frame: LoopFrame, axis: MappedAxis, op: Operation) -> SSAValue:
    """All programs' partial results of a reduction."""
    type_ = state.mapped_type(op.results[0].type)
    initial = (
        value_in(state, frame, op.sum)
        if isinstance(op, DotOp)
        else filled(frame, type_, neutral_of(op, element_of(type_)))
    )
    inner = LoopFrame(Block(arg_types=[i64, type_]), frame)
    share, total = inner.block.args
    part = inner.add(LoadOp(state.partials[op.results[0]], _index(state, op, share), type_))
    inner.block.add_op(scf.YieldOp.create(operands=[combine(inner, op, total, part)]))
    loop = scf.ForOp.create(
        operands=[frame.number(0), frame.number(axis.programs), frame.number(1), initial],
        result_types=[type_],
        regions=[Region(inner.block)],
        location=op.location,
    )
    return frame.add(loop)
