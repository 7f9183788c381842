"""Which plan a call gets: the author's, else a chosen one; with what is pinned, and within the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vkernels.ir.budget import within
from vkernels.ir.dialect import KernelOp
from vkernels.ir.errors import Error
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan

from .protocols import KernelLike


def plan_of(
    kernel: KernelLike,
    built: KernelOp,
    sizes: Mapping[str, int],
    dtypes: Mapping[str, str],
    limits: Limits,
    strides: Mapping[str, Sequence[int]] | None = None,
) -> Plan:
    """The plan of a kernel, whose IR as written is `built`, for a call's sizes and dtypes within some limits.

    The author's own; where there is none, the one of the least modelled time (`strides`: of tensors, in elements); the
    plainest where none can be chosen.
    Raises `PlanError` for a pin that the kernel, or the plan that its author wrote, cannot have.
    """
    allowed = within(limits, kernel.budget)
    plan = kernel.plan_for(sizes, dtypes, allowed)
    if plan is None:
        plan = _chosen(built, sizes, allowed, strides)
    if kernel.pin is None:
        return plan
    from vkernels.ir.pin import with_pin
    from vkernels.ir.planning.check_pin import check_pin

    check_pin(kernel.pin, built)
    return with_pin(plan, kernel.pin)


def _chosen(
    built: KernelOp, sizes: Mapping[str, int], limits: Limits, strides: Mapping[str, Sequence[int]] | None
) -> Plan:
    from vkernels.ir.planning.choose_plan import choose_plan
    from vkernels.ir.planning.default_plan import default_plan

    try:
        return choose_plan(built, sizes, limits, strides=strides).plan
    except Error:  # of a kernel whose needs cannot be read
        return default_plan(built, sizes, limits)
