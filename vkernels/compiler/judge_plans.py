"""Judge the plans of a call on a GPU by their binaries, and make the code of the best."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from vkernels.ir.cost_model.roofline import roofline
from vkernels.ir.errors import Error
from vkernels.ir.planning.resources import OutOfResources

from .artifact_cache import ArtifactCache
from .background import checkpoint
from .compile_gpu import CompiledGpu
from .judge_by_static_bound import (
    PlanBound,
    best_by_bound,
    bound_of_launches,
    is_of_use,
    loops_of_code,
    spills_in_loops,
    unless_loops_spill,
    worth_neighbours,
)
from .plan_cache import CachedPlan
from .plan_fallback import BOTTOM, PlanFallback, SpillError
from .plans_to_judge import neighbours, plans_to_judge
from .size_classes import WIDE

if TYPE_CHECKING:
    from vkernels.ir.disk_cache import DiskCache
    from vkernels.ir.plan import Plan
    from vkernels.ir.planning.choose_plan import Chosen
    from vkernels.ir.slow_plan import SlowPlan
    from vkernels.ir.unseen_time import UnseenTime

    from .arguments import Arguments, Same
    from .plans import Plans
    from .request import Code, CompileRequest

_log = logging.getLogger(__name__)


class WithDisk(Protocol):
    """The part of a session that judging uses."""

    disk: DiskCache | None


class Judged(Protocol):
    """The part of a `Compilation` that judging uses."""

    @property
    def session(self) -> WithDisk: ...
    @property
    def request(self) -> CompileRequest: ...
    @property
    def plans(self) -> Plans: ...
    def fitting_code(self, plan: Plan) -> Code: ...
    def given(self, arguments: Arguments, same: Same) -> Judged: ...


def judge_plans(compilation: Judged, present: Chosen | CachedPlan) -> tuple[PlanFallback[Any], Any] | None:
    """Judge the best plans of a compilation, and store the choice.

    Returns the best with those that follow it, and its code; None where it is the `present` one, which fits. Raises
    what compiling raises where Triton or the system does not work.
    """
    plans = compilation.plans
    ranked: list[Chosen] = []
    bounds: list[PlanBound | None] = []
    aligned = _aligned(compilation)
    while present.rung != BOTTOM and (more := candidates(plans, present.plan, bounds)):
        found = _bounds(aligned, more)
        ranked, bounds = [*ranked, *more], [*bounds, *found]
        if all(map(is_of_use, found)):
            break
    if near_to := worth_neighbours(bounds):
        some, judged = [ranked[number].plan for number in near_to], [each.plan for each in ranked]
        spilling = [ranked[number].plan for number in near_to if spills_in_loops(bounds[number])]
        near = neighbours(plans.ranked(), some, judged, spilling)
        ranked, bounds = [*ranked, *near], [*bounds, *_bounds(aligned, near)]
    best = best_by_bound(bounds)
    chosen = present if best is None or ranked[best].plan == present.plan else ranked[best]
    plans.keep_judged(chosen.plan, chosen.rung, _slow(plans, chosen))
    if chosen is present:
        return None
    fallback = plans.fallback(compilation.fitting_code)
    code = fallback.compile_first_fit()
    before = next((bound for each, bound in zip(ranked, bounds, strict=True) if each.plan == present.plan), None)
    _log.info(
        "%s on %s: of %d plans that were compiled another is better by its binaries: at least %s instead of %s",
        compilation.request.kernel.name, compilation.request.target.slice, len(ranked), _text(bounds[best or 0]),
        _text(before),
    )  # fmt: skip
    return fallback, code


def candidates(plans: Plans, present: Plan, bounds: Sequence[PlanBound | None] = ()) -> tuple[Chosen, ...]:
    """The next plans to judge, in the order of the model; none where it has nothing to say. `present`: the plan that
    calls have. `bounds`: of those that were judged before."""
    assert plans.judging is not None, "plans are judged"
    of_use = [is_of_use(bound) for bound in bounds]
    return plans_to_judge(plans.ranked(), plans.judging.count, plans.modelled(present), of_use)


def unseen_times(plans: Plans, ranked: Sequence[Chosen]) -> list[UnseenTime]:
    """What calls with each plan take by what no binary shows: at least by the roofline, and by the model."""
    from vkernels.ir.planning.unseen_time import unseen_time

    if not ranked:
        return []
    try:
        least = float(roofline(plans.built, plans.sizes, plans.limits).seconds)
    except Error:
        least = 0.0
    space = plans.space
    return [unseen_time(space, chosen.plan, least) for chosen in ranked]


def _bounds(compilation: Judged, ranked: Sequence[Chosen]) -> list[PlanBound | None]:
    """The bound of each plan; None where its code does not fit or cannot be read."""
    plans, artifacts = compilation.plans, ArtifactCache(compilation.session.disk)
    found: list[PlanBound | None] = []
    for chosen, unseen in zip(ranked, unseen_times(plans, ranked), strict=True):
        checkpoint()
        try:
            code, spilling = compilation.fitting_code(chosen.plan), False
        except SpillError as error:
            code, spilling = error.code, True
        except OutOfResources:
            found.append(None)
            continue
        assert isinstance(code, CompiledGpu), "plans of a GPU are judged"
        loops = loops_of_code(code, plans.sizes, plans.limits, artifacts)
        bound = None if loops is None else bound_of_launches(loops, unseen)
        found.append(unless_loops_spill(bound) if spilling else bound)
    return found


def _aligned(compilation: Judged) -> Judged:
    """The compilation for aligned addresses, as nearly all are: no matter which call comes first."""
    request = compilation.request
    views = request.arguments.tensors.items()
    tensors = {name: replace(view, address=view.address // WIDE * WIDE) for name, view in views}
    return compilation.given(replace(request.arguments, tensors=tensors), request.same)


def _slow(plans: Plans, chosen: Chosen | CachedPlan) -> SlowPlan | None:
    if isinstance(chosen, CachedPlan):
        return chosen.slow
    return plans.slow_chosen(chosen)


def _text(bound: PlanBound | None) -> str:
    return "no code that fits" if bound is None else f"{bound.seconds:.3g} s{' with spills in a loop' * bound.spills}"
