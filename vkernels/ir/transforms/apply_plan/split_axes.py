"""A whole axis split over programs: a launch for each phase, which first combines earlier launches' partial results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations, groupby

from xdsl.ir import Operation, SSAValue

from ...analysis.accesses import has_effect
from ...analysis.axes import MappedAxis
from ...analysis.meeting import clash, elementwise
from ...analysis.schedule.nests import Nest, all_items, label_of
from ...dialect import DotOp, PhaseOp, ScratchOp, YieldOp, element_of
from ...dialect.combining import neutral_of
from ...errors import PlanError
from ...locations import place_of
from ...plan import Home
from .access import value_in
from .barriers import Hazards
from .emit import emit_here
from .frames import LoopFrame, combine, filled
from .launches import emit_launch
from .mapping_state import MappingState
from .nests import emit_nest
from .partials import combine_partials, make_partial, store_partial
from .planned_kernel import PlannedKernel
from .split_scans import Scans, begin_scans, by_depth, check_scans, fill_totals, make_totals, scans_in
from .structure import emit_beside, emit_nests, emit_phase
from .words import first_sum


def emit_split(state: MappingState, axis: MappedAxis) -> None:
    """Emit the launches of a kernel one of whose axes is split.

    A phase's loops along the axis are a launch over the programs that share it; the rest of the phase is another
    launch, over the tile axes alone.
    """
    phases = [op for op in state.analysis.structures if isinstance(op, PhaseOp)]
    state.lasting.update(dict.fromkeys([*state.schedule.homes, *_scratchpads(state)]))
    for number, phase in enumerate(phases):
        fill = partial(_fill, state, axis, phase, phases[:number])
        label = phase.phase.data
        has_plain = any(has_effect(item) and not state.analysis.chunks(item) for item in phase.body.block.ops)
        for is_along, group in groupby(state.schedule.nests[phase], lambda nest: axis.name in nest.axes):
            nests = list(group)
            if is_along:
                _emit_along(state, axis, label, fill, nests)
            elif has_plain or any(nest.effects or nest.stores for nest in nests):
                emit_launch(state, label, (), partial(fill, nests, is_along, has_plain))
                has_plain = False
        if has_plain:
            emit_launch(state, label, (), partial(fill, [], False, True))


def _emit_along(
    state: MappingState, axis: MappedAxis, label: str, fill: Callable[..., None], nests: Sequence[Nest]
) -> None:
    """Emit launches whose programs share the axis. A nest that scans along it begins one, after those that find what
    its parts combine to."""
    together: list[list[Nest]] = [[]]
    known: set[Operation] = set()
    for nest in nests:
        scans = [op for op in scans_in(state.schedule, nest, axis.name) if op.results[0] not in state.partials]
        if together[-1] and not known.issuperset(scans):
            together.append([])
        together[-1].append(nest)
        known.update(scans)
    for group in together:
        for nest in group:
            scans = [op for op in scans_in(state.schedule, nest, axis.name) if op.results[0] not in state.partials]
            for some in by_depth(state.schedule, nest, scans):
                make_totals(state, axis, some)
                emit_launch(state, f"{label}_totals", (axis,), partial(fill, [nest], True, False, totals_of=some))
        _make_partials(state, axis, [op for nest in group for op in nest.reductions])
        emit_launch(state, label, (axis,), partial(fill, group, True, False))


def check_split(planned: PlannedKernel) -> None:
    """Raise `PlanError` where an axis cannot be split, for example because shared memory does not outlast a launch."""
    axis = planned.split_axis
    if axis is None:
        return
    if planned.plan.launches:
        raise PlanError(
            f"the plan splits axis {axis.name} over programs, which makes launches; it names others", about=axis.name
        )
    if planned.plan.online:
        online = planned.plan.online[0]
        raise PlanError(
            f"the plan goes online along {online} and splits {axis.name}: not both at once yet", about=axis.name
        )
    analysis, schedule = planned.analysis, planned.schedule
    if any(not isinstance(op, PhaseOp) for op in analysis.structures):
        raise PlanError(
            f"axis {axis.name} cannot be split over programs: a loop or conditional holds several phases",
            about=axis.name,
        )
    kept = schedule.homes | {pad: planned.plan.homes.get(label_of(pad), Home.MEMORY) for pad in _scratchpads(planned)}
    for home, kind in kept.items():
        if kind is Home.SHARED:
            raise PlanError(
                f"axis {axis.name} is split over programs, which makes launches: shared memory, the home of"
                f" {label_of(home)}, does not outlast one",
                about=axis.name,
            )
    accesses = {item: analysis.accesses(item) for item in analysis.phase}
    written = {access.base for found in accesses.values() for access in found if access.writes}
    repeated = [a for item, found in accesses.items() if axis.name not in analysis.chunks(item) for a in found]
    for access in repeated:
        if not access.writes and access.base in written:
            name = access.base.name_hint or "a tensor"
            raise PlanError(
                f"axis {axis.name} cannot be split over programs: {name} is read again and written", about=axis.name
            )
    effects = [op for nests in schedule.nests.values() for nest in nests for op in nest.effects]
    along = [access for op in effects if axis.name in analysis.chunks(op) for access in analysis.accesses(op)]
    if any(access.writes and axis.name not in access.axes for access in along):
        raise PlanError(f"axis {axis.name} cannot be split over programs: a store lacks it", about=axis.name)
    before: list[Nest] = []
    for phase_nests in schedule.nests.values():
        nests = [nest for nest in phase_nests if axis.name in nest.axes]
        _check_recomputed(planned, axis, [*nests, *before] if nests else [])
        _check_conflicts(planned, axis, nests)
        check_scans(planned, axis, nests)
        before += [Nest(each.axes, each.reductions) for each in phase_nests if each not in nests and each.reductions]


def _check_recomputed(planned: PlannedKernel, axis: MappedAxis, nests: Sequence[Nest]) -> None:
    """Raise `PlanError` where a program, which has only its part of the axis, would need all of it."""
    for item in (item for nest in nests for item in all_items(planned.schedule, nest)):
        if planned.analysis.is_chunk_reduction(item) and item.axis.data == axis.name:
            raise PlanError(
                f"axis {axis.name} cannot be split over programs: a reduction along it is computed again in each",
                place_of(item),
            )


def _scratchpads(planned: PlannedKernel) -> list[SSAValue]:
    return [op.result for op in planned.kernel.body.block.ops if isinstance(op, ScratchOp)]


def _check_conflicts(planned: PlannedKernel, axis: MappedAxis, nests: Sequence[Nest]) -> None:
    """Raise `PlanError` where programs of one launch would conflict in memory, including in recomputed items."""
    items = {item for nest in nests for item in (*all_items(planned.schedule, nest), *nest.effects)}
    for one, other in combinations((access for item in items for access in planned.analysis.accesses(item)), 2):
        if clash(one, other) and not elementwise(one, other, [axis.name]):
            name = label_of(one.base)
            raise PlanError(
                f"axis {axis.name} cannot be split over programs: {name} is written where others read it",
                about=axis.name,
            )


def _fill(
    state: MappingState,
    axis: MappedAxis,
    phase: PhaseOp,
    before: Sequence[PhaseOp],
    nests: Sequence[Nest],
    is_along: bool,
    has_plain: bool,
    frame: LoopFrame,
    totals_of: Scans | None = None,
) -> None:
    """The body of a launch: some nests of a phase, along the axis or not; `has_plain`: also effects without loops;
    `totals_of`: only what these scans of a nest combine to."""
    state.begins.clear()
    _restore(state, frame, axis, before)
    for nest in nests if is_along else ():
        known = [op for op in scans_in(state.schedule, nest, axis.name) if op.results[0] in state.partials]
        begin_scans(state, frame, axis, [op for op in known if op not in (totals_of or ())])
    if totals_of is not None:
        _emit_plain(state, frame, phase)
        fill_totals(state, axis, nests[0], totals_of, frame)
        return
    if has_plain:
        emit_phase(state, frame, phase, Hazards(), nests)
    else:
        _emit_plain(state, frame, phase)
        emit_nests(state, frame, nests, Hazards())
    for op in (op for nest in nests for op in nest.reductions if is_along):
        store_partial(state, frame, axis, op.results[0], value_in(state, frame, op.results[0]))


def _restore(state: MappingState, frame: LoopFrame, axis: MappedAxis, before: Sequence[PhaseOp]) -> None:
    """Recompute values without chunked axes of earlier phases; combine partial results along the axis."""
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
    """Emit a phase's items that need no loop and have no effect."""
    for item in phase.body.block.ops:
        if not isinstance(item, YieldOp) and not state.analysis.chunks(item) and not has_effect(item):
            frame.root().location = item.location
            emit_here(state, frame, item)


def _make_partials(state: MappingState, axis: MappedAxis, ops: Sequence[Operation]) -> None:
    for op in ops:
        make_partial(state, axis, "partial", op.results[0])


def _combined(state: MappingState, frame: LoopFrame, axis: MappedAxis, op: Operation) -> SSAValue:
    """The partial results of all programs of a reduction, combined."""
    type_ = state.mapped_type(op.results[0].type)
    initial = (
        first_sum(state, frame, op)
        if isinstance(op, DotOp)
        else filled(frame, type_, neutral_of(op, element_of(type_)))
    )

    def combined(inner: LoopFrame, totals: Sequence[SSAValue], parts: Sequence[SSAValue]) -> list[SSAValue]:
        return [combine(inner, op, totals[0], parts[0])]

    parts = frame.number(axis.programs)
    return combine_partials(state, frame, [op.results[0]], [initial], parts, combined, op)[0]
