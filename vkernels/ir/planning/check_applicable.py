"""Whether a kernel can have a plan."""

from __future__ import annotations

from ..errors import PlanError
from ..facts import Facts
from ..plan import Plan
from ..transforms.apply_plan.check_plan import check_plan
from ..transforms.apply_plan.planned_kernel import plan_kernel
from .space import PlanSearchSpace


def is_applicable(space: PlanSearchSpace, plan: Plan) -> str | None:
    """Why the kernel cannot have a plan; None if it can, knowing its sizes. Nothing is mapped for it."""
    try:
        check_plan(plan_kernel(space.kernel, plan, Facts(dict(space.sizes))))
    except PlanError as error:
        return str(error)
    return None
