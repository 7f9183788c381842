"""Whether a plan from a database, a file or another slice may run. Plans that a search tries pass the same check.

Some plans of a kernel take hours. An entry may have been written for another device, by mistake, or with bad intent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import isfinite

import numpy as np

from ..analysis.needs import NeedsUse
from ..cost_model.cpu_registers import cpu_unrolled
from ..cost_model.plan_batch import PlanBatch
from ..cost_model.roofline import roofline
from ..errors import Error
from ..pin import with_pin
from ..plan import Plan
from .bounds import beyond_bounds
from .choose_plan import bottom_plan, choose_plan
from .default_plan import default_plan
from .fits import why_inapplicable, why_not
from .one_plan import batch_of, model_use
from .plan_families import MAX_UNROLLED_INSTRUCTIONS
from .space import PlanSearchSpace

SLOWER = 8.0
"""A plan may be modelled to take this many times as long as the best: the model's error is smaller."""
ELSEWHERE = 2.0
"""A further factor for plans that were found for other sizes of the same class, or other rates."""


def why_refused(space: PlanSearchSpace, plan: Plan) -> str | None:
    """Why a kernel cannot run by a plan within limits, or should not; None if it may.

    It cannot where `apply_plan` refuses it or it takes too much. It should not where its numbers are out of bounds,
    its code would be unrolled beyond measure, or it is modelled to take far longer than the plan that is chosen.
    The registers of a CPU are no reason: how many code takes is an estimate, what spills is in the modelled time, and
    whoever tuned the plan has measured it.
    """
    try:
        return next(_reasons(space, plan), None)
    except (Error, ArithmeticError, ValueError, RecursionError) as error:  # a plan that this kernel cannot have
        return str(error) or type(error).__name__


def _reasons(space: PlanSearchSpace, plan: Plan) -> Iterator[str]:
    """Reasons to refuse a plan, those that are cheap to find first."""
    beyond = beyond_bounds(space.kernel, space.limits, plan, space.pin)
    if beyond is not None:
        yield beyond
    use = space.use_of(plan)
    batch = batch_of(space, plan)
    is_plain = _is_plain(space, plan)  # which runs wherever nothing better is ready
    misfit = why_not(use, space.limits, registers=0.0)
    if misfit is not None and not (is_plain and space.limits.warp == 1) and not _is_bottom(space, plan):
        yield misfit
    if not is_plain:
        yield from _excesses(space, plan, batch, use)
    refused = why_inapplicable(space, plan)
    if refused is not None:
        yield refused


def _excesses(space: PlanSearchSpace, plan: Plan, batch: PlanBatch, use: NeedsUse) -> Iterator[str]:
    """Reasons to refuse a plan that fits."""
    split = plan.split
    if split is not None and split not in space.pin.splits:
        shared, extent = plan.splits[split] * plan.chunks[split], max(1, space.extents[split])
        if shared > ELSEWHERE * extent:
            yield f"it splits axis {split} over {plan.splits[split]} programs, most of which have nothing to do"
    if space.limits.warp == 1 and not space.may_spill:
        unrolled = float(np.max(cpu_unrolled(batch, space.limits)))
        if unrolled > MAX_UNROLLED_INSTRUCTIONS:
            yield f"it unrolls {unrolled:.3g} instructions, {MAX_UNROLLED_INSTRUCTIONS} are the most that are tried"
    slow = _too_slow(space, batch, use)
    if slow is not None:
        yield slow


def _too_slow(space: PlanSearchSpace, batch: PlanBatch, use: NeedsUse) -> str | None:
    """Why its modelled time is too long; None if it is not.

    A plan near the least time of any plan, or near the default plan's, is never too slow. Only other plans are compared
    with the chosen plan, which takes as long as choosing one.
    """
    seconds = float(model_use(batch, use, space.limits).seconds)
    if not isfinite(seconds):
        return "no time can be modelled for it"
    least = roofline(space.kernel, space.sizes, space.limits, space.needs).seconds
    if seconds <= SLOWER * min(least, _plain_seconds(space)):
        return None
    chosen = choose_plan(space.kernel, space.sizes, space.limits, space.needs, space.strides, space.pin)
    if seconds <= ELSEWHERE * SLOWER * chosen.seconds:
        return None
    return f"it is modelled to take {seconds:.3g} s, {seconds / chosen.seconds:.3g} times as long as the chosen plan"


def _is_plain(space: PlanSearchSpace, plan: Plan) -> bool:
    plain = _plain(space)
    return plan == (replace(plain, warps=plan.warps) if space.limits.warp == 1 else plain)


def _is_bottom(space: PlanSearchSpace, plan: Plan) -> bool:
    """Whether it is the plan that runs where nothing fits."""
    return plan == with_pin(bottom_plan(space)[0], space.pin)


def _plain(space: PlanSearchSpace) -> Plan:
    return with_pin(default_plan(space.kernel, space.sizes, space.limits), space.pin)


def _plain_seconds(space: PlanSearchSpace) -> float:
    plan = _plain(space)
    try:
        use = space.use_of(plan)
        return float(model_use(batch_of(space, plan), use, space.limits).seconds)
    except Error:
        return float("inf")
