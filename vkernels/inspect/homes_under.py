"""The homes of chunked values under a plan."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.ir.analyses import phases_of
from vkernels.ir.analysis.axes import resolve_axes
from vkernels.ir.analysis.kernel_analysis import KernelAnalysis
from vkernels.ir.analysis.schedule.find_copies import find_copies
from vkernels.ir.analysis.schedule.make_schedule import make_schedule
from vkernels.ir.analysis.schedule.nests import label_of
from vkernels.ir.dialect import KernelOp
from vkernels.ir.facts import Facts
from vkernels.ir.plan import Home, Plan


def homes_under(kernel: KernelOp, plan: Plan, sizes: Mapping[str, int]) -> dict[str, Home]:
    """Return the homes of chunked values under a plan, by label; values without one are recomputed.

    Raises `PlanError` where the kernel cannot have the plan.
    """
    kernel = phases_of(kernel)
    facts = Facts(dict(sizes), distinct=True)
    analysis = KernelAnalysis(kernel, resolve_axes(kernel, plan, facts))
    schedule = make_schedule(analysis, plan, facts, find_copies(analysis, plan))
    return {label_of(value): home for value, home in schedule.homes.items()}
