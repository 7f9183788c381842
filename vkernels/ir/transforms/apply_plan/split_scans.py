"""Scans along a split axis: a launch finds what each part combines to, then each part continues from those before."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Operation, SSAValue

from ...analysis.axes import MappedAxis
from ...analysis.meeting import clash
from ...analysis.schedule.nests import Nest, NestSchedule, label_of
from ...dialect import ScanByOp, ScanOp, arith, element_of
from ...dialect.combining import REDUCTION_OF, kind_of, neutral_of
from ...dialect.scans import scanned_tiles, scans_along
from ...errors import PlanError
from ...locations import place_of
from .access import value_in
from .frames import LoopFrame, Span, broadcast_mask, combine, filled, select
from .mapping_state import MappingState
from .nests import emit, emit_chunks, items_from
from .partials import combine_partials, make_partial, store_partial
from .planned_kernel import PlannedKernel
from .scans import combined_by, first_carries, last_along, scanned_chunk

Scans = list[ScanOp | ScanByOp]


def scans_in(schedule: NestSchedule, nest: Nest, axis: str) -> Scans:
    """The scans along an axis that a nest computes, in program order."""
    found = [op for op in _computed(schedule, nest, nest.roots()) if isinstance(op, ScanOp | ScanByOp)]
    return sorted((op for op in found if op.axis.data == axis), key=schedule.analysis.position.__getitem__)


def by_depth(schedule: NestSchedule, nest: Nest, scans: Scans) -> list[Scans]:
    """Scans of a nest in groups: those of a group need only what groups before have reached."""
    depths: dict[Operation, int] = {}
    for op in scans:
        below = [depths[item] for item in _computed(schedule, nest, scanned_tiles(op)) if item in depths]
        depths[op] = 1 + max(below, default=-1)
    return [[op for op in scans if depths[op] == depth] for depth in sorted({*depths.values()})]


def _computed(schedule: NestSchedule, nest: Nest, values: Iterable[SSAValue]) -> list[Operation]:
    """The items that a nest computes for some values, from what homes hold before it: it computes what it stores."""
    analysis, stored = schedule.analysis, {value for value, home in nest.stores if value is home}

    def is_at_hand(value: SSAValue) -> bool:
        return value not in stored and schedule.home_of(value) is not None

    found: dict[Operation, None] = {}
    todo = analysis.in_chunks(values, is_at_hand)
    while todo:
        item = todo.pop()
        if item not in found:
            found[item] = None
            if analysis.is_chunk_reduction(item):
                todo += analysis.in_chunks(iter(item.operands), is_at_hand)
    return list(found)


def check_scans(planned: PlannedKernel, axis: MappedAxis, nests: Sequence[Nest]) -> None:
    """Raise `PlanError` where a launch of its own cannot find what the parts of scans combine to."""
    analysis, schedule = planned.analysis, planned.schedule
    for op in planned.kernel.walk():
        if scans_along(op, axis.name) and op not in analysis.phase:
            raise _refused(axis, op, "a loop or conditional holds a scan along it")
    for nest in nests:
        for op in scans_in(schedule, nest, axis.name):
            if other := analysis.chunks(op) - {axis.name}:
                raise _refused(axis, op, f"chunks of {', '.join(sorted(other))} are scanned one after another")
            before = _computed(schedule, nest, scanned_tiles(op))
            if any(analysis.has_effect(item) for item in before):
                raise _refused(axis, op, "what is scanned is found once, with an effect")
            written = [(effect, access) for effect in nest.effects for access in analysis.accesses(effect)]
            for item in before:
                for effect, write in written:
                    is_earlier = analysis.position[effect] < analysis.position[item]
                    if is_earlier and any(clash(write, read) for read in analysis.accesses(item)):
                        raise _refused(
                            axis, op, f"the loop of the scan writes {label_of(write.base)} before it reads it"
                        )


def _refused(axis: MappedAxis, op: Operation, reason: str) -> PlanError:
    return PlanError(f"axis {axis.name} cannot be split over programs: {reason}", place_of(op), about=axis.name)


def fill_totals(state: MappingState, axis: MappedAxis, nest: Nest, scans: Scans, frame: LoopFrame) -> None:
    """What scans of this program's part combine to, in the partial results. Nothing uses that of the last part."""
    span = frame.span(axis.name)
    assert span.base is not None, "a program's part has a start"
    assert span.count is not None, "a program's part has an end"
    end = frame.combined(arith.MuliOp, frame.find_made(("part", axis.name)), frame.number(axis.programs - 1))
    frame.spans[axis.name] = Span(span.base, frame.combined(arith.MinSIOp, span.count, end))
    items = items_from(state, frame, (tile for op in scans for tile in scanned_tiles(op)), nest)
    plain = [op for op in scans if isinstance(op, ScanOp)]
    own = [op for op in scans if isinstance(op, ScanByOp)]
    reached = [result for op in own for result in op.results]
    lower = [result for item in items if scans_along(item, axis.name) for result in item.results]
    sums = [_neutral(state, frame, op) for op in plain]

    def body(inner: LoopFrame, carried: Sequence[SSAValue]) -> list[SSAValue]:
        inner.carries.update(zip((*reached, *lower), carried[len(plain) :], strict=True))
        for item in items:
            emit(state, inner, item)
        tiles = [value_in(state, inner, op.tile) for op in plain]
        made = [combine(inner, op, *pair) for op, *pair in zip(plain, carried, tiles, strict=False)]
        for op in own:
            _continue(state, inner, op, frame.span(axis.name))
        return [*made, *(inner.carries[result] for result in (*reached, *lower))]

    initial = [*sums, *first_carries(state, frame, [*reached, *lower])]
    totals = emit_chunks(state, frame, axis.name, initial, body)
    for op, total in zip(plain, totals, strict=False):
        whole = frame.add(REDUCTION_OF[kind_of(op)](total, axis.name))
        store_partial(state, frame, axis, op.result, whole)
    for result, total in zip(reached, totals[len(plain) :], strict=False):
        store_partial(state, frame, axis, result, total)


def _neutral(state: MappingState, frame: LoopFrame, op: ScanOp) -> SSAValue:
    type_ = state.mapped_type(op.tile.type)
    return filled(frame, type_, neutral_of(op, element_of(type_)))


def _continue(state: MappingState, frame: LoopFrame, op: ScanByOp, part: Span) -> None:
    """Continue what a scan of the part has reached by a chunk. The first chunk is taken as it is: what may be combined
    with the first element of all need not be neutral before others."""
    axis = op.axis.data
    tiles = [value_in(state, frame, tile) for tile in op.tiles]
    scanned = tiles if state.axes[axis].size == 1 else scanned_chunk(frame, op, tiles)
    after = [last_along(frame, tile, axis) for tile in scanned]
    before = [frame.carries[result] for result in op.results]
    base = frame.span(axis).base
    assert base is not None, "what a chunk is compared with is no constant"
    assert part.base is not None, "a program's part has a start"
    is_first = frame.add(arith.CmpiOp(base, part.base, "eq"))
    for result, alone, together in zip(op.results, after, combined_by(frame, op, before, after), strict=True):
        frame.carries[result] = select(frame, broadcast_mask(frame, is_first, alone.type), alone, together)


def begin_scans(state: MappingState, frame: LoopFrame, axis: MappedAxis, scans: Scans) -> None:
    """Let scans of this program's part begin with what the parts before combine to."""
    before = frame.combined(arith.MinSIOp, state.coordinates[axis.name], frame.number(axis.programs - 1))
    for op in scans:

        def combined(
            inner: LoopFrame, totals: Sequence[SSAValue], parts: Sequence[SSAValue], op: ScanOp | ScanByOp = op
        ) -> Sequence[SSAValue]:
            if isinstance(op, ScanByOp):
                return combined_by(inner, op, totals, parts)
            return [combine(inner, op, totals[0], parts[0])]

        initial = first_carries(state, frame, op.results)
        found = combine_partials(state, frame, op.results, initial, before, combined, op)
        state.begins.update(zip(op.results, found, strict=True))


def make_totals(state: MappingState, axis: MappedAxis, scans: Scans) -> None:
    for op in scans:
        for result in op.results:
            make_partial(state, axis, "total", result)
