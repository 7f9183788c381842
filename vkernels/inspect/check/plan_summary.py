"""The plan that a cell's code was made by, in words and figures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from vkernels.compiler.specialise import kernel_in
from vkernels.ir.errors import Error
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Home, Plan
from vkernels.ir.plan_json import plan_to_json
from vkernels.ir.planning.choose_plan import Chosen

AUTHOR, CHOSEN, PLAIN = "author", "chosen", "plain"


@dataclass(frozen=True)
class PlanSummary:
    """A plan for a kernel, sizes and limits.

    `origin`: `author`, `chosen` or `plain`. `plan`: as JSON. `homes`: by label, of each value that crosses phases and
    each scratchpad. `rung`, `modelled_seconds`, `bottleneck`: None where no model knows. `roofline_seconds`: the least
    that any plan could take, None where the needs cannot be read. `tried`: for each plan before this one, what its
    code took too much of.
    """

    origin: str
    plan: Mapping[str, Any]
    homes: Mapping[str, str] = field(default_factory=dict)
    rung: str | None = None
    modelled_seconds: float | None = None
    bottleneck: str | None = None
    roofline_seconds: float | None = None
    tried: tuple[str, ...] = ()


def describe_plan(
    module: ModuleOp,
    plan: Plan,
    origin: str,
    sizes: Mapping[str, int],
    limits: Limits,
    chosen: Chosen | None = None,
    tried: tuple[str, ...] = (),
) -> PlanSummary:
    """A plan for the kernel of a module, as written. `chosen`: what was chosen, if the plan is just that."""
    from vkernels.ir.analyses import annotate_needs
    from vkernels.ir.cost_model.roofline import roofline
    from vkernels.ir.planning.choose_plan import rung_of
    from vkernels.ir.planning.one_plan import model_plan
    from vkernels.ir.planning.space import read_space

    kernel = kernel_in(module)
    begun = PlanSummary(origin, plan_to_json(plan), tried=tried)
    try:
        needs = annotate_needs(kernel)
        least = roofline(kernel, sizes, limits, needs).seconds
        homes = _homes(module, plan, sizes)
        if chosen is not None:
            rung, times = chosen.rung, chosen.times
        else:
            space = read_space(kernel, sizes, limits, needs)
            rung, times = rung_of(plan, space), model_plan(space, plan)
    except Error:  # of a kernel whose needs cannot be read, a plan that leaves an axis out
        return begun
    return PlanSummary(
        origin, begun.plan, homes, rung, float(times.seconds), times.bottleneck, float(least), tried
    )  # fmt: skip


def _homes(module: ModuleOp, plan: Plan, sizes: Mapping[str, int]) -> dict[str, str]:
    """Where everything lives that outlives its phase."""
    from vkernels.ir.analyses import annotate_needs

    from ..homes_under import homes_under

    kernel = kernel_in(module)
    needs = annotate_needs(kernel)
    extents, given = needs.extents(sizes), homes_under(kernel, plan, sizes)
    found = {}
    for value in needs.crossing:
        chunked = any(extents[a] > plan.chunks.get(a, 1) or plan.splits.get(a, 1) > 1 for a in value.whole)
        found[value.label] = given.get(value.label, Home.RECOMPUTE) if chunked else Home.REGISTERS
    for pad in needs.scratchpads:
        found[pad.label] = plan.homes.get(pad.label, Home.SHARED)
    return {label: home.value for label, home in found.items()}
