"""A whole axis split over programs: a launch a phase, each beginning with the combined partial results before it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import scf
from xdsl.dialects.builtin import DYNAMIC_INDEX, i64
from xdsl.ir import Block, Operation, Region, SSAValue

from ...dialect import (
    BufferOp,
    BufferType,
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
from .access import value_in
from .axes import Axis
from .barriers import Hazards
from .combining import combine, neutral_of
from .emit import emit_here
from .frames import Frame, filled
from .launches import emit_launch, program_axes, programs_along
from .nests import emit_nest
from .schedule import Nest
from .structure import emit_beside, emit_phase
from .work import Work


def emit_split(work: Work, axis: Axis) -> None:
    """The launches of a kernel one of whose axes is split.

    A phase's loops along the axis are one launch, over the programs that share it; what else the phase does,
    is another, over the tile axes alone. Raises `PlanError` where anything but reductions crosses phases.
    """
    phases = _check(work, axis)
    for number, phase in enumerate(phases):
        nests = work.schedule.nests[phase]
        along = [nest for nest in nests if axis.name in nest.axes]
        beside = [nest for nest in nests if axis.name not in nest.axes]
        before, label = phases[:number], phase.phase.data
        if along:
            for nest in along:
                _make_partials(work, axis, nest.reductions)
            emit_launch(work, label, (axis,), partial(_share, work, axis, phase, before, along))
        if any(nest.effects for nest in beside) or _has_plain_effects(work, phase):
            emit_launch(work, label, (), partial(_rest, work, axis, phase, before))


def _check(work: Work, axis: Axis) -> list[PhaseOp]:
    reading, schedule = work.reading, work.schedule
    if any(not isinstance(op, PhaseOp) for op in reading.structures):
        raise PlanError(f"axis {axis.name} cannot be split over programs: a loop or conditional holds several phases")
    if any(isinstance(op, ScratchOp) for op in reading.kernel.body.block.ops):
        raise PlanError(f"axis {axis.name} cannot be split over programs: they would not share scratchpad")
    if schedule.homes:
        names = sorted(value.name_hint or "a value" for value in schedule.homes)
        raise PlanError(f"axis {axis.name} cannot be split over programs: {', '.join(names)} would need a home")
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
    return [op for op in reading.structures if isinstance(op, PhaseOp)]


def _has_plain_effects(work: Work, phase: PhaseOp) -> bool:
    reading = work.reading
    return any(reading.has_effect(item) and not reading.chunks(item) for item in phase.body.block.ops)


def _share(
    work: Work, axis: Axis, phase: PhaseOp, before: Sequence[PhaseOp], nests: Sequence[Nest], frame: Frame
) -> None:
    """What one program does of a phase: its part of the axis."""
    _restore(work, frame, axis, before)
    _emit_plain(work, frame, phase)
    for nest in nests:
        emit_nest(work, frame, nest)
        for op in nest.reductions:
            _store_partial(work, frame, axis, op)


def _rest(work: Work, axis: Axis, phase: PhaseOp, before: Sequence[PhaseOp], frame: Frame) -> None:
    """What a phase does that has nothing to do with the axis."""
    _restore(work, frame, axis, before)
    nests = [nest for nest in work.schedule.nests[phase] if axis.name not in nest.axes]
    emit_phase(work, frame, phase, Hazards(), nests)


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
        counts = [programs_along(work, tile) for tile in program_axes(work)]
        known = [work.top.known(count) for count in counts]
        shape = [DYNAMIC_INDEX if n is None else n for n in known]
        shape += [axis.programs, *(work.axes[name].size for name in axes_of(result))]
        sizes = [count for count, n in zip(counts, known, strict=True) if n is None]
        label = f"partial_{result.name_hint or op.name.removeprefix('vk.')}"
        work.partials[result] = work.top.add(BufferOp(label, sizes, BufferType(shape, element_of(result))))


def _index(work: Work, op: Operation, share: SSAValue) -> list[tuple[list[tuple[str, int]], SSAValue | None]]:
    index: list[tuple[list[tuple[str, int]], SSAValue | None]] = []
    index += [([], work.coordinates[tile.name]) for tile in program_axes(work)]
    index.append(([], share))
    return index + [([(name, 1)], None) for name in axes_of(op.results[0])]


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
