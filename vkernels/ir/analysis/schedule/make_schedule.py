"""The homes of values: those that the plan names, that loops need, and that recomputation would get wrong."""

from __future__ import annotations

from collections.abc import Iterable

from xdsl.dialects import scf
from xdsl.ir import BlockArgument, Operation, SSAValue

from ...dialect import PhaseOp, RangeOp, ScratchOp
from ...dialect.blocks import terminator
from ...errors import PlanError
from ...facts import Facts
from ...locations import place_of
from ...plan import Home, Plan
from ..kernel_analysis import KernelAnalysis
from .check_repeats import first_wrong
from .find_online import check_homes, find_online
from .nests import NestSchedule, group_nests, label_of


def make_schedule(
    analysis: KernelAnalysis, plan: Plan, facts: Facts, copies: dict[SSAValue, Operation], for_units: bool = False
) -> NestSchedule:
    """Group each phase's work into nests; give homes where the plan says so or recomputation would be wrong.

    `for_units`: a CPU has units for dots.
    Raises `PlanError` where the plan would give wrong results.
    """
    schedule = NestSchedule(analysis, copies=copies, for_units=for_units)
    _home_carried(schedule, plan)
    _home_as_planned(schedule, plan)
    schedule.online = find_online(analysis, plan, facts, schedule.homes)
    while True:
        group_nests(schedule, plan)
        check_homes(analysis, schedule.online, schedule.home_of)
        if (cut := first_wrong(schedule, facts)) is None:
            return schedule
        if plan.homes.get(label_of(cut)) is Home.RECOMPUTE:
            message = f"{label_of(cut)} cannot be recomputed: its inputs are overwritten before"
            raise PlanError(message, place_of(cut.owner) if isinstance(cut.owner, Operation) else None)
        schedule.homes[cut] = Home.MEMORY


def _home_as_planned(schedule: NestSchedule, plan: Plan) -> None:
    analysis = schedule.analysis
    labels = set(plan.homes) - _scratchpads(analysis, plan)
    for phase in dict.fromkeys(analysis.phase.values()):
        for result in phase.results_:
            home = plan.homes.get(label_of(result))
            labels.discard(label_of(result))
            if home is None or not analysis.chunks_of_value(result):
                continue
            if home is Home.REGISTERS:
                label = label_of(result)
                raise PlanError(
                    f"{label} is processed in chunks: registers cannot hold it between phases",
                    about=label,
                    help=_other_homes(label, analysis.chunks_of_value(result)),
                )
            if home is not Home.RECOMPUTE:
                schedule.homes[analysis.source(result)] = home
    carried = [result for op in analysis.structures if not isinstance(op, PhaseOp) for result in op.results]
    labels -= {label_of(value) for value in (*carried, *schedule.homes)}  # those without chunks are in registers
    if labels:
        first = min(labels)
        raise PlanError(f"the plan gives homes to {', '.join(sorted(labels))}, which cross no phase", about=first)


def _other_homes(label: str, axes: Iterable[str]) -> str:
    chunks = ", ".join(f'"{axis}": …' for axis in sorted(axes))
    return (
        f'Its home can be shared, memory or recompute: `homes={{"{label}": "shared"}}`; registers need all of the axis '
        f"in one chunk: `chunks={{{chunks}}}` as long as the axis."
    )


def _scratchpads(analysis: KernelAnalysis, plan: Plan) -> set[str]:
    """The labels of the kernel's scratchpads. Raises `PlanError` where the plan's home for one is impossible."""
    labels = {op.label.data for op in analysis.kernel.body.block.ops if isinstance(op, ScratchOp)}
    for label in sorted(labels & set(plan.homes)):
        if plan.homes[label] not in (Home.SHARED, Home.MEMORY):
            home = plan.homes[label]
            raise PlanError(f"{label} is a scratchpad: its home is shared or memory, not {home}", about=label)
    return labels


def _home_carried(schedule: NestSchedule, plan: Plan) -> None:
    """Tiles with chunked axes that structural loops and conditionals carry live in memory."""
    analysis = schedule.analysis
    for op in analysis.structures:
        for number, result in enumerate(() if isinstance(op, PhaseOp) else op.results):
            if not analysis.chunks_of_value(result):
                continue
            home = plan.homes.get(label_of(result), Home.MEMORY)
            if home not in (Home.MEMORY, Home.SHARED):
                label = label_of(result)
                raise PlanError(f"{label} is carried in chunks: its home is shared or memory, not {home}", about=label)
            schedule.homes[result] = home
            schedule.shares.update(dict.fromkeys(_carried_arguments(op, number), result))


def _carried_arguments(op: Operation, number: int) -> list[BlockArgument]:
    """The block arguments that hold a carried value of a structural operation."""
    if isinstance(op, RangeOp):
        return [op.carried[number]]
    if isinstance(op, scf.WhileOp):
        before = op.before_region.block
        if terminator(before).operands[1 + number] is not before.args[number]:
            raise PlanError("a while loop over phases must pass on its carried values unchanged", place_of(op))
        return [before.args[number], op.after_region.block.args[number]]
    return []
