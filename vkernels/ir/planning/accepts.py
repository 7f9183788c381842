"""Whether `apply_plan` takes a plan for a kernel."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp

from ..errors import PlanError
from ..facts import Facts
from ..passes.apply_plan import apply_plan
from ..plan import Plan
from .space import Space


def accepts(space: Space, plan: Plan) -> str | None:
    """Why the kernel cannot have a plan; None if it can, knowing its sizes."""
    module = space.kernel.parent_op()
    if not isinstance(module, ModuleOp):
        module = ModuleOp([space.kernel.clone()])
    try:
        apply_plan(module, plan, Facts(dict(space.sizes)))
    except PlanError as error:
        return str(error)
    return None
