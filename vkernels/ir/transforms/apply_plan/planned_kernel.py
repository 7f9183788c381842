"""A kernel with a plan: the axes, loops, homes and copies that follow from both, before anything is emitted."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ...analysis.axes import MappedAxis, resolve_axes
from ...analysis.kernel_analysis import KernelAnalysis
from ...analysis.places import located
from ...analysis.races import programs_meet
from ...analysis.schedule.find_copies import find_copies
from ...analysis.schedule.make_schedule import make_schedule
from ...analysis.schedule.nests import NestSchedule
from ...analysis.schedule.reach import Reaches
from ...dialect import KernelOp
from ...errors import PlanError
from ...facts import Facts
from ...locations import place_of
from ...plan import Plan


@dataclass
class PlannedKernel:
    """A kernel in phases, a plan for it, and what follows from both."""

    analysis: KernelAnalysis
    schedule: NestSchedule
    plan: Plan
    facts: Facts

    @property
    def axes(self) -> dict[str, MappedAxis]:
        return self.analysis.axes

    @property
    def kernel(self) -> KernelOp:
        return self.analysis.kernel

    @cached_property
    def reaches(self) -> Reaches:
        """What the loops over chunks must visit."""
        return Reaches(self.schedule, self.facts, self.plan.guards)

    @property
    def split_axis(self) -> MappedAxis | None:
        """The whole axis that several programs share, if any."""
        return next((axis for axis in self.axes.values() if axis.programs > 1), None)


def plan_kernel(
    kernel: KernelOp, plan: Plan, facts: Facts, known: KernelAnalysis | None = None, for_units: bool = False
) -> PlannedKernel:
    """Schedule a kernel in phases under a plan. Raises `PlanError` where the result would be wrong.

    `known`: an analysis of the kernel under any plan. `for_units`: for a CPU with units for dots.
    """
    with located(kernel):
        axes = resolve_axes(kernel, plan, facts)
        analysis = KernelAnalysis(kernel, axes) if known is None else known.under(axes)
        _check_programs(analysis)
        copies = find_copies(analysis, plan)
        return PlannedKernel(analysis, make_schedule(analysis, plan, facts, copies, for_units), plan, facts)


def _check_programs(analysis: KernelAnalysis) -> None:
    """Raise `PlanError` where a tensor is written, and accessed again at possibly another program's positions."""
    shared = [axis.name for axis in analysis.axes.values() if axis.is_tile and not axis.has_one_program]
    found = [access for item in analysis.phase for access in analysis.accesses(item)]
    for race in programs_meet(analysis.kernel, found, shared):
        raise PlanError(
            f"{race.write.base.name_hint or 'a tensor'} is written and accessed again at positions that programs"
            f" along {race.axis} share",
            place_of(race.write.op),
            help=f"Declare `{race.axis}` with `vk.whole`, or give it one program: a tile as long as the axis, as in"
            f' `@vk.kernel(plan=vk.Pin(tiles={{"{race.axis}": …}}))`. Or let all programs wait for one another before'
            " with `vk.phase(grid=True)`.",
        )
