"""Tuned plans: looked up once for each call signature, and used where they fit.

The plans come from a provider that the session holds: this package knows no database.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from vkernels.ir.errors import BudgetError, Error
from vkernels.ir.pin import NO_PIN, with_pin
from vkernels.ir.plan import RANGES, Plan
from vkernels.ir.plan_json import plan_to_json

from .log_once import LogOnce

if TYPE_CHECKING:
    from vkernels.ir.dialect import KernelOp
    from vkernels.ir.disk_cache import DiskCache
    from vkernels.ir.limits import Limits

    from .protocols import Constant, KernelLike

_log = logging.getLogger(__name__)

MAX_ANSWERS = 4096
"""Answers that are kept in memory; all of them are dropped when there are more."""
FITS = b"fits"
"""The data on disk under the key of a plan that fits."""


@dataclass(frozen=True)
class PlanQuery:
    """`built`: the kernel's IR as written; `limits`: the slice's, within the kernel's budget; `strides`: in elements,
    None for tensors that are dense, row after row. `tunable`: names of the kernel's tunable constants."""

    built: KernelOp
    sizes: Mapping[str, int]
    dtypes: Mapping[str, str]
    limits: Limits
    strides: Mapping[str, Sequence[int]] | None
    tunable: frozenset[str] = frozenset()


@dataclass(frozen=True)
class TunedPlan:
    """A tuned plan. `entry`: gives the name of its database entry, for messages."""

    plan: Plan
    entry: Callable[[], str]


@dataclass(frozen=True)
class TunedVariant:
    """A tuned plan with the values that all tunable constants of the kernel had. `plan_of`: gives the plan for the
    kernel's IR, as written, with these values; None if it was tuned for another text. `entry`: see `TunedPlan`."""

    constants: Mapping[str, Constant]
    plan_of: Callable[[KernelOp], Plan | None]
    entry: Callable[[], str]


class TunedPlanProvider(Protocol):
    """Gives tuned plans, as a database does. Neither method raises, nor takes longer than seconds."""

    def plans(self, query: PlanQuery) -> Iterable[TunedPlan]:
        """The plans that were tuned for a query, the best first."""
        ...

    def variants(self, query: PlanQuery) -> Iterable[TunedVariant]:
        """The plans that were tuned for a query with any values of its tunable constants, the best first.
        `PlanQuery.built` has the first value of each."""
        ...


class TunedPlans:
    """The provider's answers, kept in memory. Without a `provider` there are no tuned plans.

    Which plans fit is kept on `disk`, if there is one: a later process does not check them again, which would take
    longer than all the rest of a first call.
    """

    def __init__(self, provider: TunedPlanProvider | None, log_once: LogOnce, disk: DiskCache | None = None):
        self.provider, self._disk = provider, disk
        self._log_once = log_once
        self._answers: dict[str, Any] = {}

    def forget(self) -> None:
        """Drop the answers: those of the provider may have changed."""
        self._answers.clear()

    def put(self, key: str, answer: Any) -> None:
        """Keep an answer."""
        if len(self._answers) >= MAX_ANSWERS:
            self._answers.clear()
        self._answers[key] = answer

    def once(self, key: str, find: Callable[[], Any]) -> Any:
        """The answer of a key; `find` gives it where there is none yet."""
        if key not in self._answers:
            self.put(key, find())
        return self._answers.get(key)

    def plan(self, kernel: KernelLike, query: PlanQuery, key: str, may_keep: bool = True) -> Plan | None:
        """The best tuned plan of a kernel that fits; None where there is none. `key`: a hash of the query and of our
        code; `may_keep`: it is one of `query.built` as well."""
        provider = self.provider
        if provider is None:
            return None

        def find() -> Plan | None:
            kept = key if may_keep else None
            fitting = (self.fitting(kernel, query, tuned, kept) for tuned in provider.plans(query))
            return next((plan for plan in fitting if plan is not None), None)

        found: Plan | None = self.once(key, find)
        return found

    def fitting(self, kernel: KernelLike, query: PlanQuery, tuned: TunedPlan, key: str | None = None) -> Plan | None:
        """A tuned plan as it would run; None where it does not fit. `key`: of the query, to keep the answer on disk."""
        plan, pin = tuned.plan, kernel.pin or NO_PIN
        if with_pin(plan, pin) != plan:
            _log.info("%s: a tuned plan is skipped: its author pinned something else", kernel.name)
            return None
        if query.limits.warp == 1:  # a CPU's programs are one thread
            least: dict[str, Any] = {name: bounds[0] for name, bounds in RANGES.items()}
            plan = with_pin(replace(plan, **least), pin)
        fit_key = None if key is None or self._disk is None else _fit_key(key, kernel, plan)
        if fit_key is not None and self._disk is not None and self._disk.get(fit_key) == FITS:
            return plan
        reason = why_unfit(kernel, query, plan)
        if reason is not None:
            self._log_once.refused_plan(_log, kernel.name, tuned.entry(), reason)
            return None
        if fit_key is not None and self._disk is not None:
            self._disk.put(fit_key, FITS)
        return plan


def _fit_key(key: str, kernel: KernelLike, plan: Plan) -> str:
    parts = ["fits", key, repr(kernel.budget), plan_to_json(plan)]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def why_unfit(kernel: KernelLike, query: PlanQuery, plan: Plan) -> str | None:
    """Why a kernel cannot or should not run by a plan: its needs, its modelled time, its author's budget; None if it
    may."""
    from vkernels.ir.planning.check_budget import check_budget
    from vkernels.ir.planning.judge_plan import why_refused
    from vkernels.ir.planning.space import read_space

    try:
        space = read_space(query.built, query.sizes, query.limits, None, query.strides, kernel.pin)
    except Error as error:
        return f"its needs cannot be read: {error}"
    reason = why_refused(space, plan)
    if reason is None and kernel.budget is not None:
        try:
            check_budget(kernel.budget, space, plan, space.use_of(plan))
        except BudgetError:
            return "it takes more than the author's budget"
    return reason
