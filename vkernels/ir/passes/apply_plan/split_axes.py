"""A whole axis split over programs: a launch a phase, each beginning with the combined partial results before it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import groupby

from xdsl.dialects import scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Operation, Region, SSAValue

from ...dialect import (
    DotOp,
    LoadOp,
    PhaseOp,
    ScratchOp,
    StoreOp,
    YieldOp,
    axes_of,
    element_of,
)
from ...errors import PlanError
from ...plan import Home
from ..accesses import clash, elementwise
from .access import value_in
from .axes import Axis
from .barriers import Hazards
from .combining import combine, neutral_of
from .emit import emit_here
from .frames import Frame, filled
from .launches import emit_launch
from .nests import emit_nest
from .programs import buffer_for_programs, program_index
from .schedule import Nest, all_items, label_of
from .structure import emit_beside, emit_phase
from .work import Work


def emit_split(work: Work, axis: Axis) -> None:
    """The launches of a kernel one of whose axes is split.

    A phase's loops along the axis are a launch over the programs that share it; what else the phase does, is another,
    over the tile axes alone. Raises `PlanError` where what crosses phases cannot outlast a launch.
    """
    phases = _check(work, axis)
    work.lasting.update(dict.fromkeys([*work.schedule.homes, *_scratchpads(work)]))
    for number, phase in enumerate(phases):
        before, label, has_plain = phases[:number], phase.phase.data, _has_plain_effects(work, phase)
        for is_along, group in groupby(work.schedule.nests[phase], lambda nest: axis.name in nest.axes):
            nests = list(group)
            if is_along:
                for nest in nests:
                    _make_partials(work, axis, nest.reductions)
                emit_launch(work, label, (axis,), partial(_share, work, axis, phase, before, nests))
            elif has_plain or any(nest.effects or nest.stores for nest in nests):
                emit_launch(work, label, (), partial(_rest, work, axis, phase, before, nests, has_plain))
                has_plain = False
        if has_plain:
            emit_launch(work, label, (), partial(_rest, work, axis, phase, before, [], True))


def _check(work: Work, axis: Axis) -> list[PhaseOp]:
    reading, schedule = work.reading, work.schedule
    if any(not isinstance(op, PhaseOp) for op in reading.structures):
        raise PlanError(f"axis {axis.name} cannot be split over programs: a loop or conditional holds several phases")
    kept = schedule.homes | {pad: work.plan.homes.get(label_of(pad), Home.MEMORY) for pad in _scratchpads(work)}
    for home, kind in kept.items():
        if kind is Home.SHARED:
            raise PlanError(
                f"axis {axis.name} is split over programs, which makes launches: shared memory, the home of"
                f" {label_of(home)}, does not outlast one"
            )
    written = {access.base for item in reading.phase for access in reading.accesses(item) if access.writes}
    for item in reading.phase:
        repeated = axis.name not in reading.chunks(item)
        for access in reading.accesses(item) if repeated else ():
            if not access.writes and access.base in written:
                name = access.base.name_hint or "a tensor"
                raise PlanError(f"axis {axis.name} cannot be split over programs: {name} is read again and written")
    for nest in (nest for nests in schedule.nests.values() for nest in nests):
        for op in nest.effects:
            if axis.name in reading.chunks(op) and any(
                axis.name not in a.axes for a in reading.accesses(op) if a.writes
            ):
                raise PlanError(f"axis {axis.name} cannot be split over programs: a store lacks it")
    phases = [op for op in reading.structures if isinstance(op, PhaseOp)]
    for phase in phases:
        _check_meetings(work, axis, [nest for nest in schedule.nests[phase] if axis.name in nest.axes])
    return phases


def _scratchpads(work: Work) -> list[SSAValue]:
    return [op.result for op in work.reading.kernel.body.block.ops if isinstance(op, ScratchOp)]


def _check_meetings(work: Work, axis: Axis, nests: Sequence[Nest]) -> None:
    """Raise `PlanError` where programs of one launch would meet in memory, even in what they compute again."""
    items = {item for nest in nests for item in (*all_items(work.schedule, nest), *nest.effects)}
    found = [access for item in items for access in work.reading.accesses(item)]
    for number, one in enumerate(found):
        for other in found[number + 1 :]:
            if clash(one, other) and not elementwise(one, other, [axis.name]):
                name = label_of(one.base)
                raise PlanError(
                    f"axis {axis.name} cannot be split over programs: {name} is written where others read it"
                )


def _has_plain_effects(work: Work, phase: PhaseOp) -> bool:
    reading = work.reading
    return any(reading.has_effect(item) and not reading.chunks(item) for item in phase.body.block.ops)


def _share(
    work: Work, axis: Axis, phase: PhaseOp, before: Sequence[PhaseOp], nests: Sequence[Nest], frame: Frame
) -> None:
    """What one program does of a phase: its part of the axis."""
    _restore(work, frame, axis, before)
    _emit_plain(work, frame, phase)
    _emit_nests(work, frame, nests)
    for op in (op for nest in nests for op in nest.reductions):
        _store_partial(work, frame, axis, op)


def _rest(
    work: Work,
    axis: Axis,
    phase: PhaseOp,
    before: Sequence[PhaseOp],
    nests: Sequence[Nest],
    has_plain: bool,
    frame: Frame,
) -> None:
    """What a phase does that has nothing to do with the axis; `has_plain`: effects without loops too."""
    _restore(work, frame, axis, before)
    if has_plain:
        emit_phase(work, frame, phase, Hazards(), nests)
        return
    _emit_plain(work, frame, phase)
    _emit_nests(work, frame, nests)


def _emit_nests(work: Work, frame: Frame, nests: Sequence[Nest]) -> None:
    hazards = Hazards()
    for nest in nests:
        hazards.before_nest(work, frame, nest)
        emit_nest(work, frame, nest)


def _restore(work: Work, frame: Frame, axis: Axis, before: Sequence[PhaseOp]) -> None:
    """Values without chunked axes as they were after earlier phases, reductions along the axis combined."""
    for op in work.reading.kernel.body.block.ops:
        if not isinstance(op, PhaseOp):
            emit_beside(work, frame, op)
        elif op in before:
            _emit_plain(work, frame, op)
            for nest in work.schedule.nests[op]:
                if axis.name in nest.axes:
                    for reduction in nest.reductions:
                        frame.values[reduction.results[0]] = _combined(work, frame, axis, reduction)
                elif nest.reductions:
                    emit_nest(work, frame, Nest(nest.axes, nest.reductions))


def _emit_plain(work: Work, frame: Frame, phase: PhaseOp) -> None:
    """A phase's items that need no loop and have no effect."""
    for item in phase.body.block.ops:
        if not isinstance(item, YieldOp) and not work.reading.chunks(item) and not work.reading.has_effect(item):
            frame.root().location = item.location
            emit_here(work, frame, item)


# Partial results: [programs along each tile axis, programs of the split axis, the result's own axes].


def _make_partials(work: Work, axis: Axis, ops: Sequence[Operation]) -> None:
    for op in ops:
        result = op.results[0]
        sizes = [axis.programs, *(work.axes[name].size for name in axes_of(result))]
        label = f"partial_{result.name_hint or op.name.removeprefix('vk.')}"
        numbers = [work.top.number(size) for size in sizes]
        work.partials[result] = buffer_for_programs(work, label, numbers, element_of(result))


def _index(work: Work, op: Operation, share: SSAValue) -> list[tuple[list[tuple[str, int]], SSAValue | None]]:
    return [*program_index(work), ([], share)] + [([(name, 1)], None) for name in axes_of(op.results[0])]


def _store_partial(work: Work, frame: Frame, axis: Axis, op: Operation) -> None:
    value = value_in(work, frame, op.results[0])
    index = _index(work, op, work.coordinates[axis.name])
    frame.block.add_op(StoreOp(value, work.partials[op.results[0]], index))


def _combined(work: Work, frame: Frame, axis: Axis, op: Operation) -> SSAValue:
    """All programs' partial results of a reduction."""
    type_ = work.mapped_type(op.results[0].type)
    initial = (
        value_in(work, frame, op.sum)
        if isinstance(op, DotOp)
        else filled(frame, type_, neutral_of(op, element_of(type_)))
    )
    inner = Frame(Block(arg_types=[i64, type_]), frame)
    share, total = inner.block.args
    part = inner.add(LoadOp(work.partials[op.results[0]], _index(work, op, share), type_))
    inner.block.add_op(scf.YieldOp.create(operands=[combine(inner, op, total, part)]))
    loop = scf.ForOp.create(
        operands=[frame.number(0), frame.number(axis.programs), frame.number(1), initial],
        result_types=[type_],
        regions=[Region(inner.block)],
        location=op.location,
    )
    return frame.add(loop)
