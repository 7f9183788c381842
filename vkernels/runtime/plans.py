"""Which plan a call gets: the author's, else a plain one; with what is pinned, and within the budget."""

from __future__ import annotations

from collections.abc import Mapping

from vkernels.ir.budget import within
from vkernels.ir.dialect import KernelOp
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan

from .protocols import KernelLike


def plan_of(
    kernel: KernelLike, built: KernelOp, sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits
) -> Plan:
    """The plan of a kernel, whose IR as written is `built`, for a call's sizes and dtypes within some limits.

    Raises `PlanError` for a pin that the kernel, or the plan that its author wrote, cannot have.
    """
    allowed = within(limits, kernel.budget)
    plan = kernel.plan_for(sizes, dtypes, allowed)
    if plan is None:
        from vkernels.ir.planning.default_plan import default_plan

        plan = default_plan(built, sizes, allowed)
    if kernel.pin is None:
        return plan
    from vkernels.ir.pin import with_pin
    from vkernels.ir.planning.check_pin import check_pin

    check_pin(kernel.pin, built)
    return with_pin(plan, kernel.pin)
