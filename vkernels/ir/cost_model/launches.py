"""A kernel in several launches as planning sees it: where it can be cut, and what crosses a cut then costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ..analysis.grid_phases import ends_of_launches
from ..analysis.kernel_analysis import KernelAnalysis
from ..analysis.launch_axes import launch_axes
from ..analysis.parallel_axes import parallel_axes
from ..analysis.schedule.find_online import check_launches
from ..analysis.schedule.nests import NestSchedule, label_of
from ..dialect import KernelOp, PhaseOp, axes_of
from ..plan import StructuralChoices
from .item_widths import bytes_of
from .loops import Axes, Loop, LoopAccess, LoopStep
from .plan_batch import NO_TERMS, PlanBatch


@dataclass(frozen=True)
class _Crossing:
    """A value that no loop over chunks touches, the launch that makes it, and the launches that use it."""

    value: SSAValue
    made: int
    used: tuple[int, ...]


def cuts_of(kernel: KernelOp) -> tuple[str, ...]:
    """The phases after which a launch of its own can begin: those of the kernel's own block, but the last."""
    phases = [op.phase.data for op in kernel.body.block.ops if isinstance(op, PhaseOp)]
    last = next((op for op in reversed(list(kernel.body.block.ops)) if op.regions), None)
    return tuple(phases[:-1] if isinstance(last, PhaseOp) else phases)


def phases_of_launches(kernel: KernelOp, launches: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The phases of each launch of a kernel that is cut after some."""
    return launch_axes(kernel).phases(launches)


def axes_of_programs(kernel: KernelOp, choices: StructuralChoices) -> tuple[frozenset[str], ...]:
    """The axes of the programs of each launch: tile axes, and whole axes that it is parallel along."""
    tiles, parallel = launch_axes(kernel).of(choices.launches), parallel_axes(kernel).of(choices.launches)
    return tuple(each | some.intersection(choices.parallel) for each, some in zip(tiles, parallel, strict=True))


def launch_of_phases(launched: Sequence[Sequence[str]]) -> dict[str, int]:
    """The number of each phase's launch, by the phases of each."""
    return {phase: number for number, phases in enumerate(launched) for phase in phases}


def scratchpads_across(kernel: KernelOp, launches: Sequence[str]) -> list[str]:
    """The labels of scratchpads that several launches access."""
    return launch_axes(kernel).scratchpads_across(launches)


def cut_loops(loops: Sequence[Loop], schedule: NestSchedule, tiles: Axes, launches: Sequence[str]) -> tuple[Loop, ...]:
    """The loops of a kernel cut after some phases: what crosses a cut is memory that each program has its part of.

    Homes and scratchpads that several launches touch are no longer swap space, which few programs share. Values
    without chunked axes, which stay in registers within a launch, are stored at its end and loaded by those after.
    Raises `PlanError` where a launch begins between a maximum and what goes online with it.
    """
    analysis = schedule.analysis
    number_of = launch_of_phases(phases_of_launches(analysis.kernel, launches))
    check_launches(schedule.online, lambda op: number_of.get(analysis.phase[op].phase.data))
    by_launch: dict[str, set[int]] = {}
    for loop in loops:
        for step in loop.steps:
            if step.touch is not None and step.touch.home is not None:
                by_launch.setdefault(step.touch.place, set()).add(number_of.get(loop.phase, -1))
    lasting = {place for place, numbers in by_launch.items() if len(numbers) > 1}
    axes = [tuple(tile for tile in tiles if tile in each) for each in launch_axes(analysis.kernel).of(launches)]
    found = [_lasting(loop, lasting, axes[number_of.get(loop.phase, -1)]) for loop in loops]
    for crossing in _crossing(analysis, launches):
        for number, writes in ((crossing.made, True), *((number, False) for number in crossing.used)):
            at = [n for n, loop in enumerate(found) if number_of.get(loop.phase, -1) == number]
            if at:
                place = at[-1] if writes else at[0]
                step = _handed_on(crossing.value, writes, axes[number])
                found[place] = replace(found[place], steps=(*found[place].steps, step))
    return tuple(found)


def parts_of(at: PlanBatch) -> list[PlanBatch]:
    """A batch for each launch, of its own loops and programs, which lie along axes too that it is parallel along."""
    number_of = launch_of_phases(at.launched)
    last = len(at.launched) - 1
    batches: list[PlanBatch] = []
    for number, tiles in enumerate(at.launch_tiles):
        loops = tuple(loop for loop in at.loops if number_of.get(loop.phase, last) == number)
        order = tuple(axis for axis in at.choices.order if axis in tiles)
        if divided := tiles.difference(order):
            loops = tuple(_by_programs(loop, divided) for loop in loops)
            order += tuple(axis for axis in at.choices.parallel if axis in divided)
        some = (
            at if order == at.choices.order else replace(at, choices=replace(at.choices, order=order), terms=NO_TERMS)
        )
        batches.append(replace(some, loops=loops, launched=(), launch_tiles=(), copied=0.0 if number else at.copied))
    return batches


def _by_programs(loop: Loop, axes: frozenset[str]) -> Loop:
    """A loop whose chunks along some axes have programs of their own, which are no trips of it."""
    kept = [number for number, axis in enumerate(loop.axes) if axis not in axes]
    return replace(
        loop,
        axes=tuple(loop.axes[number] for number in kept),
        numbers=tuple(loop.numbers[number] for number in kept if number < len(loop.numbers)),
        steps=tuple(
            step if axes.isdisjoint(step.ranges) else replace(step, ranges=_without(step.ranges, axes))
            for step in loop.steps
        ),
    )


def _without(names: Axes, axes: frozenset[str]) -> Axes:
    return tuple(name for name in names if name not in axes)


def _launch_of(kernel: KernelOp, launches: Sequence[str]) -> dict[Operation, int]:
    """The launch of every operation of the kernel's own block that has phases."""
    number, found, ends = 0, {}, ends_of_launches(kernel)
    for op in kernel.body.block.ops:
        if op.regions:
            found[op] = number
        if ends.get(op) in launches:
            number += 1
    used = sorted(set(found.values()))  # a launch without phases is none
    return {op: used.index(number) for op, number in found.items()}


def _crossing(analysis: KernelAnalysis, launches: Sequence[str]) -> Iterator[_Crossing]:
    launch_of = _launch_of(analysis.kernel, launches)
    for top, made in launch_of.items():
        for result in top.results:
            users = {launch_of.get(_top(use.operation, analysis.kernel), made) for use in result.uses}
            later = tuple(sorted(number for number in users if number > made))
            if later and isinstance(result.type, TensorType) and not analysis.chunks_of_value(result):
                yield _Crossing(result, made, later)


def _top(op: Operation, kernel: KernelOp) -> Operation:
    """The operation of the kernel's own block that contains an operation."""
    while (parent := op.parent_op()) is not None and parent is not kernel:
        op = parent
    return op


def _lasting(loop: Loop, places: set[str], tiles: Axes) -> Loop:
    steps = tuple(
        replace(step, touch=replace(step.touch, home=None, axes=_with(tiles, step.touch.axes)))
        if step.touch is not None and step.touch.home is not None and step.touch.place in places
        else step
        for step in loop.steps
    )
    return replace(loop, steps=steps)


def _handed_on(value: SSAValue, writes: bool, tiles: Axes) -> LoopStep:
    axes = axes_of(value)
    run = axes[-1] if axes else None
    return LoopStep(axes, 0, touch=LoopAccess(label_of(value), writes, bytes_of(value.type), _with(tiles, axes), run))


def _with(tiles: Axes, axes: Axes) -> Axes:
    return (*(tile for tile in tiles if tile not in axes), *axes)
