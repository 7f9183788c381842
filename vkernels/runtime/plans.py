"""Which plan a call gets: the author's, else a tuned one, else a chosen one; as pinned, and within the budget."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from vkernels.ir.budget import within
from vkernels.ir.dialect import KernelOp
from vkernels.ir.errors import BudgetError, Error
from vkernels.ir.limits import Limits
from vkernels.ir.needs import Use
from vkernels.ir.plan import Plan

from . import tuned
from .events import stated_rung
from .ladder import BOTTOM, Descent
from .protocols import KernelLike
from .remembered import Remembered, question, recall

if TYPE_CHECKING:
    from vkernels.ir.planning.choose_plan import Chosen
    from vkernels.ir.planning.space import Space

Code = TypeVar("Code")


def plan_of(
    kernel: KernelLike,
    built: KernelOp,
    sizes: Mapping[str, int],
    dtypes: Mapping[str, str],
    limits: Limits,
    strides: Mapping[str, Sequence[int]] | None = None,
) -> Plan:
    """The plan of a kernel, whose IR as written is `built`, for a call's sizes and dtypes within some limits, before
    anything is compiled.

    The author's own; where there is none, one that was tuned; then the one of the least modelled time (`strides`: of
    tensors, in elements); the plainest where none can be chosen.
    Raises `PlanError` for a pin that the kernel, or the plan that its author wrote, cannot have.
    """
    plans = Plans(kernel, built, sizes, dtypes, limits, strides)
    return plans.own() or plans.tuned or next(plans.down()).plan


@dataclass(frozen=True)
class Plans:
    """The plans that there are for one call of a kernel; arguments are `plan_of`'s."""

    kernel: KernelLike
    built: KernelOp
    sizes: Mapping[str, int]
    dtypes: Mapping[str, str]
    limits: Limits
    strides: Mapping[str, Sequence[int]] | None = None

    @property
    def allowed(self) -> Limits:
        """What the device offers and the budget allows."""
        return within(self.limits, self.kernel.budget)

    def own(self) -> Plan | None:
        """The plan that the author gives, with the pin. Raises `PlanError` for a pin that the kernel cannot have."""
        pin = self.kernel.pin
        if pin is not None:
            from vkernels.ir.planning.check_pin import check_pin

            check_pin(pin, self.built)
        plan = self.kernel.plan_for(self.sizes, self.dtypes, self.allowed)
        if plan is None:
            return None
        plan = self._pinned(plan)
        self._check_own(plan)
        return plan

    def descent(self, attempt: Callable[[Plan], Code], recalled: Remembered | None = None) -> Descent[Code]:
        """The plans in the order in which a call tries them, where its author gives none: what is tuned, else what was
        found to fit before, then those that are chosen. `attempt`: makes a plan's code, as `Descent` has it.

        `recalled`: what was found to fit, where that is not what the question says.
        """
        if self.tuned is not None:
            first: Remembered | None = Remembered(self.tuned, stated_rung(self.tuned))
        else:
            first = recalled or self.remembered(self.question)
        return Descent(self.kernel.name, self.down, attempt, first)

    def down(self, wanted: Callable[[Use], bool] = lambda use: True) -> Iterator[Chosen]:
        """Chosen plans, the best first, the bottom rung's last; where a kernel's needs cannot be read the plain one."""
        from vkernels.ir.planning.choose_plan import plans_down

        plans = plans_down(
            self.built, self.sizes, self.allowed, strides=self.strides, pin=self.kernel.pin, wanted=wanted
        )  # fmt: skip
        try:
            first = next(plans)
        except Error:
            yield self._unread()
            return
        for chosen in chain([first], plans):
            self._check(chosen)
            yield chosen

    def sure(self) -> Iterator[tuple[Plan, str]]:
        """Plans that take no choosing, with their rungs: the plain one, and the bottom rung's."""
        from vkernels.ir.planning.choose_plan import choose_bottom

        plain = self._plain()
        with suppress(BudgetError):
            self._check_own(plain)
            yield plain, stated_rung(plain)
        bottom = choose_bottom(self.built, self.sizes, self.allowed, self.strides, self.kernel.pin)
        self._check(bottom)
        yield bottom.plan, bottom.rung

    def _check(self, chosen: Chosen) -> None:
        """Raise `BudgetError` for a plan of the bottom rung, which nobody has asked yet whether it fits, beyond it."""
        if self.kernel.budget is not None and chosen.rung == BOTTOM:
            from vkernels.ir.planning.check_budget import check_budget

            check_budget(self.kernel.budget, self._space(), chosen.plan, chosen.use)

    def _check_own(self, plan: Plan) -> None:
        """The same for a plan that nobody chose."""
        if self.kernel.budget is None:
            return
        from vkernels.ir.needs import Device, annotate_needs
        from vkernels.ir.planning.check_budget import check_budget

        try:
            use = annotate_needs(self.built).evaluate(plan, self.sizes, Device.of(self.limits))
            check_budget(self.kernel.budget, self._space(), plan, use, "The plan that its author gives takes so much")
        except BudgetError:
            raise
        except Error:  # needs that cannot be read, or a plan that the kernel cannot have, which compiling tells of
            return

    def _space(self) -> Space:
        from vkernels.ir.planning.space import read_space

        return read_space(self.built, self.sizes, self.limits, None, self.strides, self.kernel.pin)

    @cached_property
    def question(self) -> str:
        """What a choice is remembered by."""
        return question(self.built, self.sizes, self.allowed, self.strides, self.kernel.pin)

    @cached_property
    def tuned(self) -> Plan | None:
        """The best plan that was tuned for this and fits; whether its code does is seen later."""
        if not tuned.is_asked():
            return None
        return tuned.tuned(
            self.kernel, self.built, self.sizes, self.dtypes, self.allowed, self.strides, self.question
        )  # fmt: skip

    def remembered(self, question: str) -> Remembered | None:
        """The plan that was chosen for this question before, whose code fits."""
        return recall(question, self.built, self.allowed, self.kernel.pin)

    def _plain(self) -> Plan:
        from vkernels.ir.planning.default_plan import default_plan

        return self._pinned(default_plan(self.built, self.sizes, self.allowed))

    def _pinned(self, plan: Plan) -> Plan:
        from vkernels.ir.pin import with_pin

        return plan if self.kernel.pin is None else with_pin(plan, self.kernel.pin)

    def _unread(self) -> Chosen:
        """The plain plan, of which nobody knows what it takes."""
        from vkernels.ir.planning.choose_plan import Chosen
        from vkernels.ir.planning.model_time import Times

        plan = self._plain()
        use = Use((), plan.warps, 0, 0, False, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, ())
        return Chosen(plan, use, Times({}, 0.0), stated_rung(plan))
