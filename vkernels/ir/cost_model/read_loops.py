"""Read the loops of a kernel, given which axes are held at once and where crossing values live.

They are read from the schedule that `apply_plan` follows, so that the model counts what will be emitted: values
computed again, homes stored and loaded, reductions in loops of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, islice
from math import gcd
from typing import Any

from xdsl.dialects import scf
from xdsl.dialects.builtin import AnyFloat, BFloat16Type, TensorType
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ..analysis.accesses import ancestors
from ..analysis.ahead import loads_ahead
from ..analysis.axes import known_value
from ..analysis.dot_orientation import feeds_dot
from ..analysis.k_major import contracted_axis
from ..analysis.kernel_analysis import KernelAnalysis
from ..analysis.piecewise import breaks_of, only_for_indices
from ..analysis.schedule.find_online import Online
from ..analysis.schedule.nests import Nest, NestSchedule, in_order, operands_along, slice_for
from ..analysis.schedule.reach import Reaches, check_guards
from ..dialect import (
    AccessOp,
    DotOp,
    PhaseOp,
    RangeOp,
    ReductionOp,
    ScanByOp,
    ScanOp,
    ScratchOp,
    SumOp,
    TensorArgumentType,
    WriteOp,
    YieldOp,
    axes_of,
)
from ..dialect.scans import body_operations
from ..facts import Facts
from ..plan import Home, Plan
from .dot_step import dot_step
from .index_sums import index_sums
from .item_widths import ItemWidths, bytes_of, widths_of
from .live_tiles import alive, carried_by, highest, most_alive, reduced_tile
from .loops import MOST_ALIGNED, Axes, LiveTile, Loop, LoopAccess, LoopStep
from .operation_weights import weight_of
from .read_accesses import apart_along, is_found, near_along, range_axes, run_along, spread_along
from .visits import TEST_OPERATIONS, Visit, tests_of, visit_of, visits_of

RESCALE_OPERATIONS = 6
"""Operations of a maximum so far and the base of the sums, beside the exponential that rescales them."""
WHILE = "while"
"""What loops that are no ranges are called."""


@dataclass(frozen=True)
class Known:
    """What was found out of a kernel's loops under one plan that is the same under others: the steps of an item, by
    the homes of scratchpads too, what is alive among items, how wide an item's elements are, and which items only
    compute indices of accesses to neighbours; and whether a result of its dots goes into another one."""

    steps: dict[Any, tuple[LoopStep, ...]] = field(default_factory=dict)
    live: dict[Any, tuple[LiveTile, ...]] = field(default_factory=dict)
    widths: dict[Operation, ItemWidths] = field(default_factory=dict)
    indices: dict[Operation, frozenset[Operation]] = field(default_factory=dict)
    chains: dict[Operation, bool] = field(default_factory=dict)


def read_loops(
    schedule: NestSchedule,
    plan: Plan,
    strides: Mapping[str, Sequence[int]] | None = None,
    known: Known | None = None,
) -> tuple[Loop, ...]:
    """The loops of a scheduled kernel, in the order they run. `strides`: in elements, of tensors where they are known;
    others are dense, row after row. `known`: of the same kernel and strides."""
    return tuple(_Reader(schedule, plan, strides or {}, known or Known()).loops())


class _Reader:
    def __init__(self, schedule: NestSchedule, plan: Plan, strides: Mapping[str, Sequence[int]], known: Known):
        self.strides = strides
        self.known = known
        self.scratchpads = plan.homes
        self.schedule = schedule
        self.analysis: KernelAnalysis = schedule.analysis
        self.reaches = Reaches(schedule, Facts(distinct=True), plan.guards)
        check_guards(self.reaches)
        kernel = self.analysis.kernel
        if kernel not in self.known.indices:
            self.known.indices[kernel] = only_for_indices(kernel)
            self.known.chains[kernel] = any(isinstance(op, DotOp) and feeds_dot(op) for op in kernel.walk())
        self.indices, self.has_chains = self.known.indices[kernel], self.known.chains[kernel]
        self.names = dict(zip(kernel.body.block.args, (p.data for p in kernel.parameters), strict=True))
        pads = [op.label.data for op in kernel.body.block.ops if isinstance(op, ScratchOp)]
        self.homes_of_pads = tuple(plan.homes.get(label) for label in pads)
        self.numbers = count()

    def loops(self) -> Iterator[Loop]:
        nests: dict[Operation | Block, list[tuple[Nest, tuple[Operation, ...]]]] = {}
        for owner, nest, around in in_order(self.schedule):
            nests.setdefault(owner, []).append((nest, around))
        for phase in self.analysis.structures:
            if isinstance(phase, PhaseOp):
                ops = phase.body.block.ops
                straight = [op for op in ops if not isinstance(op, YieldOp) and not self.analysis.chunks(op)]
                ranges = _ranges(self.analysis.structures[phase])
                yield from self._loop(phase.phase.data, (), (), ranges, straight, [], [])
                yield from self._nests(phase.phase.data, nests.pop(phase, []))
        for rest in nests.values():
            yield from self._nests("loop", rest)

    def _nests(self, phase: str, nests: Sequence[tuple[Nest, tuple[Operation, ...]]]) -> Iterator[Loop]:
        for nest, around in nests:
            made = {value for value, home in nest.stores if value is home}
            homed = [total for group in nest.online for total in group.homed]
            here = (value for value in nest.roots() if not homed or self._chunks(value) <= {*nest.axes})
            items = [*self.analysis.in_chunks(here, partial(self._at_hand, made)), *nest.effects]
            totals = [total for group in nest.online for total in group.totals if total not in group.homed]
            reductions = [*nest.reductions, *totals]
            items += [op for group in nest.online for op in group.path]
            visits, tests = visits_of(self.reaches, nest)
            items += tests
            ranges, numbers = _ranges(around), self._numbered(nest.axes)
            stores, online = nest.stores, nest.online
            yield from self._loop(phase, nest.axes, numbers, ranges, items, reductions, stores, online, visits)
            for dot in homed:
                yield self._homed(phase, nest.axes, numbers, ranges, dot, items, visits)

    def _numbered(self, axes: Axes) -> tuple[int, ...]:
        """Numbers of loops over chunks of these axes that no other loops have."""
        return tuple(islice(self.numbers, len(axes)))

    def _homed(
        self,
        phase: str,
        axes: Axes,
        numbers: tuple[int, ...],
        ranges: Axes,
        dot: SumOp | DotOp,
        around: Sequence[Operation],
        visits: tuple[Visit, ...],
    ) -> Loop:
        """The loop over the chunks of a dot's result that adds a chunk of products to each, in its home."""
        assert isinstance(dot, DotOp)
        made = {result for op in around for result in op.results}
        items = self.analysis.in_chunks(
            iter(operands_along(dot)), lambda value: value in made or self._at_hand(set(), value)
        )
        home = self._home(dot.result)
        steps = self._home_loads(items)
        steps += [
            _home_step(dot.result, home, writes=False),
            *(step for op in items for step in self._steps_of(op)),
        ]
        steps += [*self._steps_of(dot), _home_step(dot.result, home, writes=True)]
        inner = tuple(axis for axis in self.analysis.axes if axis in self._chunks(dot.result))
        live = (*(alive(each, self._touch) for each in operands_along(dot)), carried_by(dot))
        widths = self._widths(dot)
        return Loop(
            phase, (*axes, *inner), ranges, tuple(steps), (), live, widths.operand_bytes or 4, visits=visits,
            numbers=(*numbers, *self._numbered(inner)),
            tensor_dtype=widths.tensor_dtype, of_chained_dots=self.has_chains,
        )  # fmt: skip

    def _chunks(self, value: SSAValue) -> frozenset[str]:
        return self.analysis.chunks_of_value(value)

    def _at_hand(self, made: set[SSAValue], value: SSAValue) -> bool:
        return value not in made and self.schedule.home_of(value) is not None

    def _loop(
        self,
        phase: str,
        axes: Axes,
        numbers: tuple[int, ...],
        ranges: Axes,
        items: Sequence[Operation],
        reductions: Sequence[Operation],
        stores: Sequence[tuple[SSAValue, SSAValue]],
        online: Sequence[Online] = (),
        visits: tuple[Visit, ...] = (),
    ) -> Iterator[Loop]:
        analysis = self.analysis
        ordered = sorted({*items, *reductions}, key=analysis.position.__getitem__)
        inner = [op for op in ordered if analysis.is_chunk_reduction(op) and op not in reductions]
        for op in inner:  # computed again, in a loop of its own
            axis = op.axis.data
            again = slice_for(self.schedule, operands_along(op))
            reach = self.reaches.of_reduction(op)
            inside = visits if reach is None else (*visits, visit_of(axis, reach))
            again += [] if reach is None else tests_of(self.reaches, reach)
            loops = (*axes, axis) if axis not in axes else axes
            shared = numbers[: loops.index(axis)]
            own_numbers = (*shared, *self._numbered(loops[len(shared) :]))
            yield from self._loop(phase, loops, own_numbers, ranges, again, [op], [], visits=inside)
        own = [op for op in ordered if op not in inner and op not in self.indices]
        steps = self._home_loads(own)
        steps += [step for op in own for step in self._steps_of(op)]
        steps += [_home_step(value, self._home(home), writes=True) for value, home in stores]
        steps += [step for group in online for step in _online_steps(group)]
        steps += [LoopStep(axes, TEST_OPERATIONS) for visit in visits if visit.is_tested]
        if steps:
            reduced = tuple(reduced_tile(op) for op in reductions)
            widths = [self._widths(op) for op in own]
            mostly_wide = 2 * sum(each.wide for each in widths) > sum(each.tiles for each in widths)
            yield Loop(
                phase, axes, ranges, tuple(steps), reduced, self._live(own, reductions, online),
                min((each.operand_bytes for each in widths if each.operand_bytes), default=4),
                8 if mostly_wide else 4, any(each.in_float64 for each in widths),
                visits,
                tuple(carried_by(total) for total in reductions if online and isinstance(total, DotOp)),
                numbers=numbers,
                tensor_dtype=next((each.tensor_dtype for each in widths if each.operand_bytes), ""),
                of_chained_dots=self.has_chains,
            )  # fmt: skip

    def _home(self, value: SSAValue) -> tuple[str, Home]:
        return value.name_hint or "value", self.schedule.homes[value]

    def _home_loads(self, items: Sequence[Operation]) -> list[LoopStep]:
        made = {result for op in items for result in op.results}
        used: dict[SSAValue, SSAValue] = {}
        for op in items:
            for value in self.analysis.inputs(op):
                source = self.analysis.source(value)
                home = self.schedule.home_of(source)
                if home is not None and source not in made:
                    used[source] = home
        return [_home_step(value, self._home(home), writes=False) for value, home in used.items()]

    def _steps_of(self, item: Operation) -> tuple[LoopStep, ...]:
        key = item, self.homes_of_pads
        if key not in self.known.steps:
            steps = list(self._steps(item, ()))
            if item.regions:
                beside = tuple(dict.fromkeys(axis for step in steps for axis in step.axes))
                steps = [replace(step, beside=beside) for step in steps]
            self.known.steps[key] = tuple(steps)
        return self.known.steps[key]

    def _steps(self, op: Operation, ranges: Axes) -> Iterator[LoopStep]:
        if isinstance(op, AccessOp):
            touch = self._touch(op)
            yield LoopStep(axes_of(op.tile), 0, ranges, touch, ragged=_ragged_axes(op), origin=op)
        elif isinstance(op, DotOp):
            yield dot_step(op, ranges)
        elif isinstance(op, ScanByOp):
            operations = sum(map(weight_of, body_operations(op)))
            yield LoopStep(axes_of(op.tiles[0]), operations, ranges, reduced=op.axis.data, scans=True, origin=op)
        elif op.regions:
            here = (*ranges, op.axis.data) if isinstance(op, RangeOp) else ranges
            for region in op.regions:
                for inner in region.ops if len(region.blocks) == 1 else ():
                    yield from self._steps(inner, here)
        else:
            operations = weight_of(op)
            worked = _work_axes(op)
            if operations and worked is not None:
                reduced = op.axis.data if isinstance(op, ReductionOp | ScanOp) else None
                widths = self._widths(op)
                yield LoopStep(
                    worked, operations, ranges, reduced=reduced, scans=isinstance(op, ScanOp),
                    in_int64=widths.wide > 0 and not widths.in_float64, origin=op,
                )  # fmt: skip

    def _touch(self, op: AccessOp) -> LoopAccess:
        offsets = [op.offset_of(dimension) for dimension in range(len(op.index))]
        axes: list[str] = []
        for index, offset in zip(op.index, offsets, strict=True):
            axes += [axis for axis, _ in index.terms]
            if offset is not None:
                axes += (*axes_of(offset), *range_axes(offset))
        tiles = [offset for offset in offsets if offset is not None and is_found(offset)]
        found = tuple(dict.fromkeys(axis for offset in tiles for axis in axes_of(offset)))
        label, home = self._memory(op.base)
        strides = self.strides.get(label, ()) if home is None else ()
        fast = next((number for number, stride in enumerate(strides) if stride == 1), len(offsets) - 1)
        is_dense = bool(offsets) and (1 in strides or not strides)
        run = run_along(op, fast) if is_dense else None
        width = bytes_of(op.memory.element)
        alignment = gcd(MOST_ALIGNED, *(stride * width for stride in strides if stride != 1))
        if offsets and (start := offsets[fast]) is not None:
            known = None if isinstance(start.type, TensorType) else known_value(start, Facts())
            alignment = gcd(alignment, width * (1 if known is None else known))
        return LoopAccess(
            label,
            not op.results or isinstance(op, WriteOp),
            width,
            tuple(dict.fromkeys(axes)),
            run,
            found,
            home,
            alignment,
            bool(op.guarded_dimensions),
            isinstance(op, WriteOp) and op.atomic is not None,
            sum(breaks_of(o) or 0 for o in offsets if o is not None and axes_of(o)),
            apart_along(op, fast, strides) if run is None and offsets and not isinstance(op, WriteOp) else None,
            index_sums(op) if home is None else (),
            spread_along(op, fast)
            if offsets and run is None and home is None and (1 in strides or not strides)
            else None,
            op in loads_ahead(self.analysis.kernel),
            is_float=isinstance(op.memory.element, AnyFloat),
            is_bf16=isinstance(op.memory.element, BFloat16Type),
            near=near_along(op, fast, strides) if run is not None and home is None else None,
            contracted=contracted_axis(op) if home is None else None,
            tensor=op.base.type.shape if found and isinstance(op.base.type, TensorArgumentType) else (),
            beyond=tuple(axis for number in op.guarded_dimensions for axis, _ in op.index.data[number].terms),
        )

    def _memory(self, base: SSAValue) -> tuple[str, Home | None]:
        if isinstance(base, BlockArgument) and base in self.names:
            return self.names[base], None
        op = base.owner
        label = op.label.data if isinstance(op, ScratchOp) else base.name_hint or "memory"
        return label, self.scratchpads.get(label, Home.SHARED)

    def _widths(self, item: Operation) -> ItemWidths:
        if isinstance(item, DotOp):  # what homes hold was extended before
            source = self.analysis.source
            return widths_of(item, lambda each: each if self._at_hand(set(), source(each)) else source(each))
        if item not in self.known.widths:
            self.known.widths[item] = widths_of(item)
        return self.known.widths[item]

    def _live(
        self, items: Sequence[Operation], reductions: Sequence[Operation], online: Sequence[Online]
    ) -> tuple[LiveTile, ...]:
        """The tiles alive at the worst point, as if all axes had the same number of elements."""
        key = tuple(items), tuple(reductions)
        if key not in self.known.live:
            maxima = {group.maximum for group in online}
            carried = [highest(op) if op in maxima else carried_by(op) for op in reductions]
            self.known.live[key] = (*carried, *most_alive(self.analysis, items, reductions, self._touch))
        return self.known.live[key]


def _work_axes(op: Operation) -> Axes | None:
    """The axes of what an operation works on: a reduction's operand, else its result."""
    if isinstance(op, ReductionOp | ScanOp):
        return axes_of(op.operands[0])
    tiles = [value for value in op.results if isinstance(value.type, TensorType)]
    return axes_of(tiles[0]) if tiles else None


def _online_steps(group: Online) -> Iterator[LoopStep]:
    """What a maximum that may grow costs beside the exponentials: that of each chunk, the next base, and rescaling each
    partial sum."""
    axes, along, origin = axes_of(group.maximum.tile), group.maximum.axis.data, group.exponential
    bases = tuple(axis for axis in axes if axis != along)
    yield LoopStep(axes, 0, reduced=along, completes=True, origin=origin)
    yield LoopStep(bases, weight_of(origin) + RESCALE_OPERATIONS, (along,), origin=origin)
    for total in group.totals:
        if total in group.homed:
            continue  # rescaled only where a base moves
        if isinstance(total, DotOp):
            yield LoopStep(axes_of(total.result), 1, (along,), origin=total)
        else:
            yield LoopStep(axes_of(total.tile), 1, origin=total)


def _ragged_axes(op: Operation) -> Axes:
    """The axes along which the sequential loops around an operation end after different numbers of iterations."""
    loops = [each for each in ancestors(op) if isinstance(each, RangeOp) and each.is_ragged]
    return tuple(dict.fromkeys(axis for loop in loops for axis in axes_of(loop.start)))


def _home_step(value: SSAValue, home: tuple[str, Home], writes: bool) -> LoopStep:
    axes, (label, kind) = axes_of(value), home
    run = axes[-1] if axes else None
    touch = LoopAccess(label, writes, bytes_of(value.type), axes, run, home=kind, is_laid_out=True)
    return LoopStep(axes, 0, touch=touch, origin=value.owner if isinstance(value.owner, Operation) else None)


def _ranges(around: Sequence[Operation]) -> Axes:
    """The loops among structural operations; those that are no ranges share one name."""
    return tuple(op.axis.data if isinstance(op, RangeOp) else WHILE for op in around if not isinstance(op, scf.IfOp))
