"""Launches: grids of programs, the starts of their tiles, and variants for full and for partial tiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import i64
from xdsl.ir import Block, Region, SSAValue

from ...analysis.axes import MappedAxis
from ...analysis.repeatable import may_repeat
from ...dialect import LaunchOp, RangeOp, ScratchOp, arith
from ...plan import Home
from .access import value_in
from .frames import LoopFrame, Span, joined
from .homes import lasting, make_memory
from .mapping_state import MappingState
from .swizzle import swizzled


def emit_launch(
    state: MappingState,
    label: str,
    splits: Sequence[MappedAxis],
    body: Callable[[LoopFrame], None],
    lacking: Sequence[MappedAxis] = (),
) -> None:
    """A launch over the programs of its tile axes, then of the split or parallel axes; `body` fills each variant.

    `lacking`: axes that the launch has no programs along, but none at all where one of them is empty.
    """
    tiles = state.program_axes()
    coordinates = [*tiles, *splits]
    grid = [state.programs_along(axis) for axis in coordinates]
    one = [state.top.combined(arith.MinSIOp, state.extent_of(axis), state.top.number(1)) for axis in lacking]
    block = Block(arg_types=[i64] * (len(grid) + len(one)))
    frame = state.launch = LoopFrame(block, state.top)
    for axis, argument in zip([*coordinates, *lacking], block.args, strict=True):
        argument.name_hint = f"p_{axis.name}"
    swizzle = state.plan.swizzle if state.has_all_tiles and not splits else 1
    places = swizzled(frame, swizzle, block.args[: len(grid)], grid)
    state.coordinates = {axis.name: place for axis, place in zip(coordinates, places, strict=True)}
    begin_launch(state, frame)
    for axis in splits:
        frame.spans[axis.name] = _segment(state, frame, axis)
    emit_variants(state, frame, tiles, body)
    add_launch(state, label, [*grid, *one], block)


def begin_launch(state: MappingState, frame: LoopFrame) -> None:
    """Start with no homes; whole axes are there from end to end, and scratchpads."""
    state.homes, state.second = {}, {}
    for axis in state.axes.values():
        if not axis.is_tile:
            extent = value_in(state, frame, axis.extent) if axis.is_chunked or axis.is_masked else None
            frame.spans[axis.name] = Span(None, extent)
    _make_scratch(state, frame)


def add_launch(
    state: MappingState, label: str, grid: Sequence[SSAValue], block: Block, warps: int | None = None
) -> None:
    """Append a launch whose body is complete. `warps`: of its programs at most, if not as many as the plan's."""
    launch = LaunchOp(label, grid, Region(block), warps)
    launch.location = state.kernel.location
    state.top.block.add_op(launch)


def _segment(state: MappingState, frame: LoopFrame, axis: MappedAxis) -> Span:
    """A program's part of a split axis, in whole chunks except for the last, or its chunk of a parallel one: where it
    starts and stops."""
    extent, size = value_in(state, frame, axis.extent), frame.number(axis.size)
    if axis.programs == 1:
        start = frame.combined(arith.MuliOp, state.coordinates[axis.name], size)
        stop = frame.combined(arith.AddiOp, start, size)
        return Span(start, stop if axis.exact else frame.combined(arith.MinSIOp, stop, extent))
    chunks = frame.combined(arith.CeilDivSIOp, extent, size)
    mine = frame.combined(arith.CeilDivSIOp, chunks, frame.number(axis.programs))
    length = frame.cache["part", axis.name] = frame.combined(arith.MuliOp, mine, size)
    start = frame.combined(arith.MuliOp, state.coordinates[axis.name], length)
    start = frame.combined(arith.MinSIOp, start, extent)
    stop = frame.combined(arith.MinSIOp, frame.combined(arith.AddiOp, start, length), extent)
    return Span(start, stop)


def _make_scratch(state: MappingState, frame: LoopFrame) -> None:
    for op in (op for op in state.kernel.body.block.ops if isinstance(op, ScratchOp)):
        label, shape, element = op.label.data, op.result.type.shape, op.result.type.element
        if op.result in state.lasting:
            frame.values[op.result] = lasting(state, op.result, label, shape, element)
            continue
        is_known = all(isinstance(d, int) or state.axes[d].capacity is not None for d in shape)
        home = state.plan.homes.get(label, Home.SHARED if is_known else Home.MEMORY)
        frame.values[op.result] = make_memory(state, label, shape, element, home)
        if op.result in state.schedule.copies:
            state.second[op.result] = make_memory(state, f"{label}_2", shape, element, home)


def emit_variants(
    state: MappingState, frame: LoopFrame, tiles: Sequence[MappedAxis], body: Callable[[LoopFrame], None]
) -> None:
    """The body for programs with full tiles, and for those with partial tiles; only one if facts decide.

    On a CPU straight code also has a variant for programs whose tiles are partial along the lanes alone: a mask that
    each row has of its own costs more than one that all rows share. Where tiles may overlap, the last tile of an axis
    ends where the axis does, over some of the tile before it, and is full: only tiles longer than the axis are partial.
    """
    left: dict[str, SSAValue] = {}
    overlaps = _may_overlap(state)
    for axis in tiles:
        coordinate = state.coordinates[axis.name]
        base = frame.combined(arith.MuliOp, coordinate, frame.number(axis.size))
        if base is not coordinate:
            base.name_hint = f"{axis.name}0"
        alone = axis.has_one_program
        frame.spans[axis.name] = Span(None if alone else base, None)
        if not axis.exact:
            extent = value_in(state, frame, axis.extent)
            if overlaps and not alone:
                base = _moved_back(frame, base, extent, axis.size)
                frame.spans[axis.name] = Span(base, None)
            left[axis.name] = extent if alone else frame.combined(arith.SubiOp, extent, base)
    partial = [tuple(left)]
    if not any(axis.has_one_program and not axis.exact for axis in tiles):
        along = tuple(name for name in left if name == state.plan.lanes)
        some = [along] if along and len(left) > 1 and _is_straight(state) else []
        partial = [(), *some, *partial] if left else partial
    _emit_first(state, frame, left, partial, body)


def _moved_back(frame: LoopFrame, base: SSAValue, extent: SSAValue, size: int) -> SSAValue:
    """Where a tile begins that does not reach beyond the axis, if that is as long as the tile."""
    last = frame.combined(arith.SubiOp, extent, frame.number(size))
    return frame.combined(arith.MaxSIOp, frame.combined(arith.MinSIOp, base, last), frame.number(0))


def _may_overlap(state: MappingState) -> bool:
    """Whether tiles may overlap: in straight code that nothing outlasts but what it stores to the caller's tensors."""
    outlasts = state.lasting or state.packed or state.k_major or state.partials or state.plan.packs
    return state.overlap and _is_straight(state) and state.facts.distinct and not outlasts and may_repeat(state.kernel)


def _is_straight(state: MappingState) -> bool:
    """Whether the code is for a CPU, and without loops."""
    loops = any(axis.is_chunked for axis in state.axes.values())
    return not state.gpu and not loops and not any(isinstance(op, RangeOp) for op in state.kernel.walk())


def _emit_first(
    state: MappingState, frame: LoopFrame, left: Mapping[str, SSAValue], partial: Sequence[tuple[str, ...]],
    body: Callable[[LoopFrame], None],
) -> None:  # fmt: skip
    """The first variant whose other axes are full. `left`: positions that a program has along axes that may not be;
    `partial`: those that a variant bounds, the last one all."""
    bounded, *others = partial
    if not others:
        frame.spans.update({name: Span(frame.span(name).base, left[name]) for name in bounded})
        body(frame)
        return
    sizes = ((left[name], frame.number(state.axes[name].size)) for name in left if name not in bounded)
    full = joined(frame, (frame.add(arith.CmpiOp(count, size, "sge")) for count, size in sizes))
    variants = [LoopFrame(Block(), frame), LoopFrame(Block(), frame)]
    _emit_first(state, variants[0], left, [bounded], body)
    _emit_first(state, variants[1], left, others, body)
    for variant in variants:
        variant.block.add_op(scf.YieldOp.create())
    regions = [Region(variant.block) for variant in variants]
    frame.block.add_op(scf.IfOp.create(operands=[full], regions=regions, location=state.kernel.location))
