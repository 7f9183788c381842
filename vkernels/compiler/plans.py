"""The plan of a call: the author's, else a tuned, cached or chosen one; as pinned, and within the budget."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from xdsl.dialects.builtin import ModuleOp

from vkernels.ir.analysis.needs import NeedsUse
from vkernels.ir.budget import within
from vkernels.ir.dialect import KernelOp
from vkernels.ir.errors import BudgetError, Error
from vkernels.ir.limits import Limits
from vkernels.ir.pin import NO_PIN, Pin, with_pin
from vkernels.ir.plan import Plan
from vkernels.ir.text import print_module

from .artifact_cache import hash_of
from .ordered_updates import refuse_any_order, with_order
from .plan_cache import CachedPlan, PlanCache
from .plan_fallback import BOTTOM, PlanFallback
from .protocols import KernelLike
from .size_classes import ClassPlanning
from .timeline import working
from .tuned_plans import PlanQuery, TunedPlans

if TYPE_CHECKING:
    from vkernels.ir.planning.choose_plan import Chosen
    from vkernels.ir.planning.space import PlanSearchSpace
    from vkernels.ir.slow_plan import SlowPlan

    from .judge_by_static_bound import Judging

Code = TypeVar("Code")


def stated_rung(plan: Plan) -> str:
    """The last rung of the ladder that a plan names; what it leaves to `apply_plan` is not counted."""
    if plan.launches or plan.split is not None:
        return "launches"
    homes = {str(home) for home in plan.homes.values()}
    return next((rung for rung in ("memory", "recompute", "shared") if rung in homes), "registers")


@dataclass(frozen=True)
class Plans:
    """The plans that there are for one call of a kernel within some limits.

    `built`: the kernel's IR as written, with one tensor in place of all that are the same; `sizes`, `dtypes` and
    `strides`: by name, strides in elements, None where each tensor lies row after row; `tuned_plans` and `plan_cache`:
    the session's; `apart`: the IR for tensors that share no memory, for which plans are tuned, if not `built`.
    `of_class`: that of which `sizes` are the largest, if there is one. `is_deterministic`: they follow from what stands
    here alone, and update floats in one order; `limits` are `deterministic_limits` then. `judging`: how several plans
    are judged by their binaries, if they are.
    """

    kernel: KernelLike
    built: KernelOp
    sizes: Mapping[str, int]
    dtypes: Mapping[str, str]
    limits: Limits
    strides: Mapping[str, Sequence[int]] | None
    tuned_plans: TunedPlans
    plan_cache: PlanCache
    apart: KernelOp | None = None
    of_class: ClassPlanning | None = None
    is_deterministic: bool = False
    judging: Judging | None = None

    @property
    def allowed(self) -> Limits:
        """What the device offers and the budget allows."""
        return within(self.limits, self.kernel.budget)

    def author_plan(self) -> Plan | None:
        """The plan that the author gives, with the pin. Raises `PlanError` for a pin that the kernel cannot have.

        Where calls are deterministic, raises `UnsupportedError` for updates of floats that can have no fixed order, and
        `PlanError` for a pin or a plan under which they have none.
        """
        if self.kernel.pin is not None:
            from vkernels.ir.planning.check_pin import check_pin

            check_pin(self.kernel.pin, self.built)
        plan = self.kernel.plan_for(self.sizes, self.dtypes, self.allowed)
        plan = None if plan is None else with_pin(plan, self.kernel.pin or NO_PIN)
        if self.is_deterministic:
            refuse_any_order(self.built, self.limits.warp > 1, self.kernel.pin, plan)
        if plan is None:
            return None
        self._check_budget(plan)
        return plan

    def fallback(self, attempt: Callable[[Plan], Code]) -> PlanFallback[Code]:
        """The plans in the order in which a call tries them, where the author gives none: a tuned one, else the best by
        its binaries, else a cached one, then those that are chosen. `attempt`: makes a plan's code, as `PlanFallback`
        has it."""
        if self.tuned is not None:
            first: CachedPlan | None = CachedPlan(self.tuned, stated_rung(self.tuned))
        else:
            first = self.judged or self.cached(self.cache_key)
        return PlanFallback(self.kernel.name, self.ranked, attempt, first, self.unkept_pins)

    def unkept_pins(self) -> Sequence[str]:
        """The author's pins that no plan can keep, as written."""
        from vkernels.ir.planning.unkept_pins import unkept_pins

        return () if self.kernel.pin is None else unkept_pins(self.space)

    def known_fallback(self, attempt: Callable[[Plan], Code]) -> PlanFallback[Code] | None:
        """The same, if this process knows the first of them already."""
        return self.fallback(attempt) if self.plan_cache.is_known(self.cache_key) else None

    def first_fit(self, attempt: Callable[[Plan], Code]) -> tuple[PlanFallback[Code], Code]:
        """The plans that are left after the first whose code fits, and that code. The plan is stored."""
        fallback = self.fallback(attempt)
        code = fallback.compile_first_fit()
        if not isinstance(fallback.chosen, CachedPlan):
            chosen = fallback.chosen
            self.plan_cache.put(self.cache_key, chosen.plan, chosen.rung, self.slow_plan(fallback))
        return fallback, code

    @property
    def judged(self) -> CachedPlan | None:
        """The plan that was found best by its binaries; None where none was judged."""
        return None if self.judging is None else self.cached(self.judging.key(self.cache_key))

    @property
    def may_judge(self) -> bool:
        """Whether plans are to be judged by their binaries, and were not yet."""
        return self.judging is not None and self.tuned is None and self.judged is None

    def keep_judged(self, plan: Plan, rung: str, slow: SlowPlan | None) -> None:
        """Store the plan that was found best by its binaries."""
        assert self.judging is not None, "plans were judged"
        self.plan_cache.put(self.judging.key(self.cache_key), plan, rung, slow)

    def slow_plan(self, fallback: PlanFallback[Code]) -> SlowPlan | None:
        """How the present plan is far from what the device can do; None if it is not, or was tuned or not modelled."""
        chosen = fallback.chosen
        if isinstance(chosen, CachedPlan):
            return chosen.slow
        if fallback.slow is None or fallback.slow[0] is not chosen.plan:
            fallback.slow = chosen.plan, self.slow_chosen(chosen, fallback.why_bottom)
        return fallback.slow[1]

    def slow_chosen(self, chosen: Chosen, why_bottom: str | None = None) -> SlowPlan | None:
        """How a chosen plan is far from what the device can do; None if it is not. `why_bottom`: why it is of the
        bottom rung, if it is."""
        from vkernels.ir.planning.slow_plans import slow_plan

        return slow_plan(self.space, chosen.plan, chosen.seconds, why_bottom)

    def ranked(self, is_useful: Callable[[NeedsUse], bool] = lambda use: True) -> Iterator[Chosen]:
        """Chosen plans, the best first, the bottom rung's last; only the plain one where the needs cannot be read."""
        plans = self._plans_down(is_useful)
        try:
            with working("plan", self.kernel):
                first = next(plans)
        except Error:
            yield self._unmodelled()
            return
        for chosen in chain([first], plans):
            self._check(chosen)
            yield chosen

    def modelled(self, plan: Plan) -> Chosen | None:
        """A plan as if it were chosen; None where it cannot be modelled."""
        from vkernels.ir.planning.choose_plan import Chosen
        from vkernels.ir.planning.one_plan import model_plan

        try:
            space = self.space
            return Chosen(plan, space.use_of(plan), model_plan(space, plan), stated_rung(plan))
        except Error:
            return None

    def _plans_down(self, is_useful: Callable[[NeedsUse], bool]) -> Iterator[Chosen]:
        from vkernels.ir.planning.choose_plan import plans_down

        if self.of_class is not None:
            from vkernels.ir.planning.plans_of_class import SampleSizes, plans_of_class

            largest = SampleSizes(self.sizes, self.strides or {})
            samples = [SampleSizes(each.sizes, each.strides) for each in self.of_class.samples()]
            return plans_of_class(self.built, largest, samples, self.allowed, self.pin, is_useful)
        return plans_down(
            self.built, self.sizes, self.allowed, strides=self.strides, pin=self.pin, wanted=is_useful
        )  # fmt: skip

    def plain(self) -> Iterator[tuple[Plan, str]]:
        """Plans that take no choosing, with their rungs: the default plan, and the bottom rung's."""
        from vkernels.ir.planning.choose_plan import choose_bottom

        default = self._default()
        with suppress(BudgetError):
            self._check_budget(default)
            yield default, stated_rung(default)
        bottom = choose_bottom(self.built, self.sizes, self.allowed, self.strides, self.pin)
        self._check(bottom)
        yield bottom.plan, bottom.rung

    def _check(self, chosen: Chosen) -> None:
        """Raise `BudgetError` for a bottom-rung plan beyond the budget: that rung is not checked when it is chosen."""
        if self.kernel.budget is not None and chosen.rung == BOTTOM:
            from vkernels.ir.planning.check_budget import check_budget

            check_budget(self.kernel.budget, self._space(), chosen.plan, chosen.use)

    def _check_budget(self, plan: Plan) -> None:
        """Raise `BudgetError` for a plan beyond the budget that planning did not choose."""
        if self.kernel.budget is None:
            return
        from vkernels.ir.analyses import annotate_needs
        from vkernels.ir.analysis.needs import NeedsDevice
        from vkernels.ir.planning.check_budget import check_budget

        try:
            use = annotate_needs(self.built).evaluate(plan, self.sizes, NeedsDevice.of(self.limits))
            check_budget(self.kernel.budget, self._space(), plan, use, "The plan that its author gives takes so much")
        except BudgetError:
            raise
        except Error:  # needs that cannot be read, or a plan that the kernel cannot have: compiling reports it
            return

    @property
    def space(self) -> PlanSearchSpace:
        """The space that plans are chosen in."""
        return self._space(self.allowed)

    def _space(self, limits: Limits | None = None) -> PlanSearchSpace:
        from vkernels.ir.planning.space import read_space

        return read_space(self.built, self.sizes, limits or self.limits, None, self.strides, self.pin)

    @cached_property
    def pin(self) -> Pin | None:
        """What is fixed before a plan is chosen: the author's pin, and the order of updates of deterministic calls."""
        if not self.is_deterministic:
            return self.kernel.pin
        return with_order(self.built, self.sizes, self.allowed, self.strides, self.kernel.pin)

    @cached_property
    def cache_key(self) -> str:
        """The key of the choice in the plan cache: a hash of all that it depends on."""
        parts = [
            hash_of("ir/**/*.py"), hash_of("compiler/*.py"), self._text, dict(self.sizes), asdict(self.allowed),
            None if self.kernel.pin is None else asdict(self.kernel.pin),
            None if self.strides is None else {name: list(of) for name, of in self.strides.items()},
            None if self.of_class is None else self.of_class.key, *(["deterministic"] if self.is_deterministic else []),
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()

    @property
    def _text(self) -> str:
        """The kernel's IR as written. It is printed once."""
        found = self.built.analyses.get("text")
        if not isinstance(found, str):
            found = self.built.analyses["text"] = print_module(ModuleOp([self.built.clone()]))
        return found

    @cached_property
    def tuned(self) -> Plan | None:
        """The best plan that was tuned for this and fits; whether its code does is seen later. Deterministic calls have
        none: a database may change."""
        if self.tuned_plans.provider is None or self.is_deterministic:
            return None
        return self.tuned_plans.plan(self.kernel, self.query, self.cache_key, self.apart is None)

    @property
    def query(self) -> PlanQuery:
        """The query for the provider of tuned plans."""
        tunable = frozenset(parameter.name for parameter in self.kernel.parameters if parameter.tunable is not None)
        return PlanQuery(self.apart or self.built, self.sizes, self.dtypes, self.allowed, self.strides, tunable)

    @property
    def is_ready(self) -> bool:
        """Whether a plan was tuned or chosen for these sizes before."""
        return self.tuned is not None or self.cached(self.cache_key) is not None

    def cached(self, cache_key: str) -> CachedPlan | None:
        """The plan of an earlier choice whose code fits."""
        return self.plan_cache.get(cache_key, self.built, self.allowed, self.kernel.pin)  # order is no bound

    def _default(self) -> Plan:
        from vkernels.ir.planning.default_plan import default_plan

        return self._pinned(default_plan(self.built, self.sizes, self.allowed))

    def _pinned(self, plan: Plan) -> Plan:
        return with_pin(plan, self.pin or NO_PIN)

    def _unmodelled(self) -> Chosen:
        """The default plan, without needs and time, which are unknown."""
        from vkernels.ir.cost_model.plan_batch import ModeledTimes
        from vkernels.ir.planning.choose_plan import Chosen

        plan = self._default()
        use = NeedsUse((), plan.warps, 0, 0, False, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ())
        return Chosen(plan, use, ModeledTimes({}, 0.0), stated_rung(plan))
