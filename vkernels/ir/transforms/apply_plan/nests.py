"""Emit chunk loops: nests, and reductions with partial results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import accumulate, chain, pairwise

from xdsl.dialects import scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Operation, SSAValue

from ...analysis.masks.conditions import tested_values
from ...analysis.schedule.nests import Nest, operands_along
from ...analysis.schedule.reach import Reach
from ...dialect import DotOp, ReductionOp, ScanByOp, ScanOp, arith, element_of
from ...dialect.combining import neutral_of
from ...dialect.words import depth_of
from .access import value_in
from .emit import as_words, emit_here, neutral_outside, zeroed
from .frames import LoopFrame, Span, Visited, combine, conditional, filled, put_aside
from .guards import guard
from .homes import store_home
from .mapping_state import MappingState
from .online import OnlineSums
from .scans import emit_scan, first_carries, scanned_along
from .visits import values_of, visited
from .warp_roles import give_roles
from .words import dot_step, first_sum

Body = Callable[[LoopFrame, Sequence[SSAValue]], list[SSAValue]]
"""Fills a chunk's frame, given the values that the loop carries; returns their new values."""


def emit(state: MappingState, frame: LoopFrame, op: Operation) -> None:
    """Emit an item into the outermost frame that has its axes, unless it is there already."""
    analysis = state.analysis
    chunks = analysis.chunks(op)
    at = state.target(frame, chunks - {op.axis.data} if analysis.is_chunk_reduction(op) else chunks)
    if op.results and at.find(op.results[0]) is not None:
        return
    at.root().location = op.location
    if analysis.is_chunk_reduction(op):
        _emit_reductions(state, at, [op])
    elif isinstance(op, ScanOp | ScanByOp) and op.axis.data in analysis.chunked:
        emit_scan(state, at, op)
    else:
        emit_here(state, at, op)


def emit_nest(state: MappingState, frame: LoopFrame, nest: Nest) -> None:
    """Emit a nest's loops. The results of its reductions are known in the frame afterwards."""
    if nest.reductions:
        _emit_reductions(state, frame, nest.reductions, nest)
        return
    items = items_from(state, frame, nest.roots(), nest)
    _open_loops(state, frame, nest.axes, items, nest, lambda inner: _fill(state, inner, items, nest))


def _open_loops(
    state: MappingState,
    frame: LoopFrame,
    axes: Sequence[str],
    items: list[Operation],
    nest: Nest,
    fill: Callable[[LoopFrame], None],
) -> None:
    if not axes:
        fill(frame)
        return
    axis, *rest = axes
    scans = scanned_along(axis, items)

    def body(inner: LoopFrame, carried: Sequence[SSAValue]) -> list[SSAValue]:
        inner.carries.update(zip(scans, carried, strict=True))
        _open_loops(state, inner, rest, items, nest, fill)
        return [inner.carries[scan] for scan in scans]

    reach = state.reaches.of_nest(nest, axis)
    emit_chunks(state, frame, axis, first_carries(state, frame, scans), body, reach)


def items_from(state: MappingState, frame: LoopFrame, roots: Iterator[SSAValue], nest: Nest | None) -> list[Operation]:
    """The items to emit for some values of a nest, from values that exist already or are loaded from homes."""
    stored = {value for value, home in nest.stores if value is home} if nest is not None else set()

    def is_available(value: SSAValue) -> bool:
        has_home = value not in stored and state.schedule.home_of(value) is not None
        return has_home or frame.find(value) is not None

    return state.analysis.sliced(roots, is_available)


def _fill(state: MappingState, frame: LoopFrame, items: Sequence[Operation], nest: Nest) -> None:
    """The body of the innermost loop: items and effects in program order, then stores into homes."""
    for op in sorted({*items, *nest.effects}, key=state.analysis.position.__getitem__):
        emit(state, frame, op)
    made = [(value, home, _stored(state, frame, value)) for value, home in nest.stores]
    for value, home, new in made:
        store_home(state, frame, home, value, new)


def _stored(state: MappingState, frame: LoopFrame, value: SSAValue) -> SSAValue:
    """What a value's home takes. What is extended for a unit, or packed, is words already."""
    made, words = value_in(state, frame, value), state.word_homes.get(value)
    if words is None or depth_of(element_of(made)) is None:
        return made
    return as_words(state, frame, value, words.axis, words.split)


# Reductions.


def _emit_reductions(
    state: MappingState, frame: LoopFrame, ops: Sequence[ReductionOp | DotOp], nest: Nest | None = None
) -> None:
    """Reductions along one chunked axis, in one loop: elementwise in the loop, along the axis once after it."""
    axis = ops[0].axis.data
    assert nest is not None or axis not in state.coordinates, "a program sees only its part of a split axis"
    roots = [value for op in ops for value in operands_along(op)] if nest is None else [*nest.roots()]
    here = [value for value in roots if nest is None or state.analysis.chunks_of_value(value) <= {*nest.axes}]
    items = items_from(state, frame, iter(here), nest)
    scans = scanned_along(axis, items)
    groups = [] if nest is None else [OnlineSums(state, group, partial(_over_chunks, state)) for group in nest.online]
    ops = [op for op in ops if all(op is not each.group.maximum for each in groups)]
    firsts = [each.first_values(frame) for each in groups]
    ends = list(accumulate(map(len, firsts), initial=len(ops)))
    spans = list(zip(groups, pairwise(ends), strict=True))
    initial = [*(_initial(state, frame, op) for op in ops), *chain(*firsts), *first_carries(state, frame, scans)]

    def body(inner: LoopFrame, carried: Sequence[SSAValue]) -> list[SSAValue]:
        inner.carries.update(zip(scans, carried[ends[-1] :], strict=True))
        again = [put_aside(inner, carried[a:b]) if each.puts_aside else None for each, (a, b) in spans]
        if nest is not None:
            _fill(state, inner, items, nest)
        else:
            for item in items:
                emit(state, inner, item)
        reached = [_accumulate(state, inner, op, total) for op, total in zip(ops, carried, strict=False)]
        for (each, (start, end)), reload in zip(spans, again, strict=True):
            reached += each.next_values(inner, reload() if reload else carried[start:end])
        return [*reached, *(inner.carries[scan] for scan in scans)]

    reach = state.reaches.of_nest(nest, axis) if nest is not None else state.reaches.of_reduction(ops[0])
    totals = emit_chunks(state, frame, axis, initial, body, reach)
    for op, total in zip(ops, totals, strict=False):
        frame.values[op.results[0]] = result = _reduced(frame, op, total)
        result.name_hint = op.results[0].name_hint
    for each, (start, end) in spans:
        for value, result in zip(each.results, each.last_values(frame, totals[start:end]), strict=True):
            frame.values[value] = result
            result.name_hint = value.name_hint


def _initial(state: MappingState, frame: LoopFrame, op: ReductionOp | DotOp) -> SSAValue:
    if isinstance(op, DotOp):
        return dot_start(state, frame, op)
    type_ = state.mapped_type(op.tile.type)
    return filled(frame, type_, neutral_of(op, element_of(type_)))


def dot_start(state: MappingState, frame: LoopFrame, op: DotOp) -> SSAValue:
    """The initial value of a dot's sum: 0 in a program that has only its part of a split axis."""
    if op.axis.data in state.coordinates:
        return filled(frame, state.mapped_type(op.result.type), 0)
    return first_sum(state, frame, op)


def _accumulate(state: MappingState, frame: LoopFrame, op: ReductionOp | DotOp, total: SSAValue) -> SSAValue:
    """The partial results with one more chunk."""
    if isinstance(op, ReductionOp):
        return combine(frame, op, total, neutral_outside(state, frame, op))
    left, right = (
        zeroed(state, frame, side, value_in(state, frame, side), op.axis.data) for side in (op.left, op.right)
    )
    return dot_step(state, frame, op, left, right, total)


def _reduced(frame: LoopFrame, op: ReductionOp | DotOp, total: SSAValue) -> SSAValue:
    if isinstance(op, DotOp):
        return total
    made = type(op)(total, op.axis.data)
    made.location = op.location
    return frame.add(made)


# Loops over the chunks of an axis.


def _over_chunks(
    state: MappingState,
    frame: LoopFrame,
    axes: Sequence[str],
    roots: Sequence[SSAValue],
    fill: Callable[[LoopFrame], None],
) -> None:
    """Emit loops over the chunks of axes, filled after what some values need has been emitted."""
    if axes:
        axis, *rest = axes

        def body(inner: LoopFrame, _: Sequence[SSAValue]) -> list[SSAValue]:
            _over_chunks(state, inner, rest, roots, fill)
            return []

        emit_chunks(state, frame, axis, [], body)
        return
    for item in items_from(state, frame, iter(roots), None):
        emit(state, frame, item)
    fill(frame)


def emit_chunks(
    state: MappingState,
    frame: LoopFrame,
    name: str,
    initial: Sequence[SSAValue],
    body: Body,
    reach: Reach | None = None,
) -> list[SSAValue]:
    """Run `body` for every chunk of an axis: full chunks in a loop without masks, then the masked rest.

    In the variant for partial tiles, all chunks are masked and share one loop. `reach`: what must be visited, else all.
    """
    axis, span = state.axes[name], frame.span(name)
    assert span.count is not None
    start, stop = (frame.number(0) if span.base is None else span.base), span.count
    first, last, full = start, stop, body
    if reach is not None:
        found = _visited(state, frame, name, reach)
        first, last = found.first, found.last
        body = _guarded(state, name, reach, found, body)
    step = frame.number(axis.size)
    if reach is None and axis.exact and axis.programs == 1 and name in state.coordinates:
        return body(_only_chunk(frame, name, start), initial)
    is_partial = any(frame.span(tile.name).count is not None for tile in state.program_axes())
    if axis.exact or is_partial:
        totals = _loop(frame, name, first, last, step, None if axis.exact else stop, initial, body)
        give_roles(state, name, totals)
        return totals
    chunks = frame.combined(arith.FloorDivSIOp, frame.combined(arith.SubiOp, stop, start), step)
    middle = frame.combined(arith.AddiOp, frame.combined(arith.MuliOp, chunks, step), start)
    end = middle if last is stop else frame.combined(arith.MinSIOp, middle, last)
    totals = _loop(frame, name, first, end, step, None, initial, body)
    give_roles(state, name, totals)
    return _rest(frame, name, middle, stop, totals, full, None if last is stop else last)


def _only_chunk(frame: LoopFrame, name: str, start: SSAValue) -> LoopFrame:
    """The chunk of a program that has no other, whole: without a loop, in the block around."""
    inner = LoopFrame(frame.block, frame, axis=name, pinned=False)
    inner.spans[name] = Span(start, None)
    return inner


def _visited(state: MappingState, frame: LoopFrame, axis: str, reach: Reach) -> Visited:
    for item in items_from(state, frame, iter(values_of(reach)), None):
        emit(state, frame, item)
    return visited(state, frame, axis, reach)


def _guarded(state: MappingState, axis: str, reach: Reach, found: Visited, body: Body) -> Body:
    """The body of a loop that tests each chunk before, if the masks can be tested."""
    values = tested_values(reach)
    if not values:
        return body

    def tested(inner: LoopFrame, carried: Sequence[SSAValue]) -> list[SSAValue]:
        for item in items_from(state, inner, iter(values), None):
            emit(state, inner, item)
        base = inner.span(axis).base
        test = guard(state, inner, reach, inner.number(0) if base is None else base, found.firsts)
        chunk = LoopFrame(Block(), inner, axis=axis, pinned=False)
        return conditional(inner, test, chunk, body(chunk, carried), carried)

    return tested


def _loop(
    frame: LoopFrame,
    name: str,
    start: SSAValue,
    stop: SSAValue,
    step: SSAValue,
    end: SSAValue | None,
    initial: Sequence[SSAValue],
    body: Body,
) -> list[SSAValue]:
    """A loop over chunks; positions from `end` on are masked."""
    first, last, size = frame.known(start), frame.known(stop), frame.known(step)
    if first is not None and last is not None and first >= last:
        return list(initial)
    block = Block(arg_types=[i64, *(value.type for value in initial)])
    position: SSAValue = block.args[0]
    position.name_hint = f"{name}0"
    inner = LoopFrame(block, frame, axis=name, pinned=False)
    if first is not None and last is not None and size is not None and first + size >= last:
        position = start
    count = None if end is None else inner.combined(arith.SubiOp, end, position)
    inner.spans[name] = Span(None if frame.known(position) == 0 else position, count)
    block.add_op(scf.YieldOp.create(operands=body(inner, block.args[1:])))
    return list(frame.loop((start, stop, step), initial, block, frame.root().location))


def _rest(
    frame: LoopFrame,
    name: str,
    start: SSAValue,
    stop: SSAValue,
    totals: list[SSAValue],
    body: Body,
    last: SSAValue | None,
) -> list[SSAValue]:
    """The last chunk, which is partial, if there is one and positions are visited up to `last` (None: all)."""
    rest = frame.combined(arith.SubiOp, stop, start)
    if frame.known(rest) == 0:
        return totals
    inner = LoopFrame(Block(), frame, axis=name, pinned=False)
    inner.spans[name] = Span(None if frame.known(start) == 0 else start, rest)
    left, none = (rest, frame.number(0)) if last is None else (last, start)
    some = frame.add(arith.CmpiOp(left, none, "sgt"))
    return conditional(frame, some, inner, body(inner, totals), totals)
