"""A kernel with a plan: what the plan makes of its axes, loops, homes and copies, before anything is emitted."""

from __future__ import annotations

from dataclasses import dataclass

from ...analysis.axes import MappedAxis, resolve_axes
from ...analysis.kernel_analysis import KernelAnalysis
from ...analysis.schedule.find_copies import find_copies
from ...analysis.schedule.make_schedule import make_schedule
from ...analysis.schedule.nests import NestSchedule
from ...dialect import KernelOp
from ...facts import Facts
from ...plan import Plan
from .check_programs import check_programs


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

    @property
    def split_axis(self) -> MappedAxis | None:
        """The axis that several programs share, if one is."""
        return next((axis for axis in self.axes.values() if axis.programs > 1), None)


def plan_kernel(kernel: KernelOp, plan: Plan, facts: Facts) -> PlannedKernel:
    """Schedule a kernel, which is split into phases, under a plan. Raises `PlanError` where that cannot be right."""
    analysis = KernelAnalysis(kernel, resolve_axes(kernel, plan, facts))
    check_programs(analysis)
    return PlannedKernel(analysis, make_schedule(analysis, plan, facts, find_copies(analysis, plan)), plan, facts)
