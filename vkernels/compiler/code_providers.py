"""Providers of the code of calls of one shape: by the author's plan, or by the best plan, compiled in the background.

A first call waits for the plan that is modelled best, as long as the session's patience lasts. Where its code is not
ready by then, a plain plan's code is made and run, and a later call takes over the better one.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from vkernels.ir.errors import Error, OutOfMemoryError, PlanError, SlowPlanWarning, warn_caller
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import frozen
from vkernels.ir.planning.resources import OutOfResources, Resource, Shortage

from .background import AbandonedError, pause_compiles, start_in_background
from .log_once import LogOnce
from .plan_fallback import BOTTOM, NO_OTHER_PLAN, PlanFallback, author_plan_error, shortages
from .plans import stated_rung
from .size_classes import EXACT

if TYPE_CHECKING:
    from vkernels.ir.planning.choose_plan import Chosen

    from .compilation import Compilation
    from .plan_cache import CachedPlan

_log = logging.getLogger(__name__)

Code = TypeVar("Code")
Bound = TypeVar("Bound")

Binder = Callable[[Code, Plan, str], Bound]
"""Binds code to arguments, in the thread of a call, given its plan and rung. May raise `OutOfResources`."""

_Best: TypeAlias = tuple[PlanFallback[Any], Any]
"""The plans that are left, and the code of the present one."""


def provider_of(compilation: Compilation, bind: Binder[Any, Bound]) -> CodeProvider[Bound]:
    """The provider of the code of calls like a compilation's request. `bind`: binds code to the arguments.

    Raises the author's mistakes in the plan.
    """
    own = compilation.plans.author_plan()
    return TieredProvider(compilation, bind) if own is None else FixedPlanProvider(compilation, own, bind)


class FixedPlanProvider(Generic[Bound]):
    """Provides code of the author's plan, and no other; see `TieredProvider`."""

    is_final, is_plain = True, False

    def __init__(self, compilation: Compilation, plan: Plan, bind: Binder[Any, Bound]):
        self._compilation, self._plan, self._bind = compilation, plan, bind

    def start(self) -> None:
        """`get` compiles, in the caller's thread."""

    def get(self) -> Bound:
        try:
            return self._bind(self._compilation.author_code(self._plan), self._plan, stated_rung(self._plan))
        except OutOfResources as error:
            raise author_plan_error(self._compilation.request.kernel.name, error) from error

    def reject(self, shortage: Shortage) -> Bound:
        raise author_plan_error(self._compilation.request.kernel.name, OutOfResources(shortage))

    def on_better(self, callback: Callable[[], None]) -> None:
        """There is no better code."""


class TieredProvider(Generic[Bound]):
    """Provides code of the best plan that fits, or at first of a plain plan. Safe to use from several threads.

    `bind`: binds code to arguments, in the thread of a call. `is_final`: `get` gave the best code, so that the provider
    may be dropped. On a GPU, the best plan is that of the model until some plans are judged by their binaries.
    """

    def __init__(self, compilation: Compilation, bind: Binder[Any, Bound]):
        self._compilation, self._bind = compilation, bind
        self._kernel, self._slice = compilation.request.kernel.name, compilation.request.target.slice
        self._is_deterministic = compilation.request.is_deterministic
        self._lock = threading.Lock()
        self._best: Future[_Best] | None = None
        self._judged: Future[_Best | None] | None = None
        self._begun = 0.0
        self._current: _Best | None = None
        self._is_late = False

    def start(self) -> None:
        """Start compiling in the background, where `get` would."""
        self._begin()

    def get(self) -> Bound:
        """The best code by now. Raises the author's mistakes; `PlanError` where no plan has code that fits."""
        best, session = self._begin(), self._compilation.session
        patience = None if session.waiters or self._is_deterministic else session.patience
        if not wait([best], None if patience is None else max(0.0, self._begun + patience - time.monotonic())).done:
            return self._plain(best, patience)
        if patience is None and self._judged is not None and not self._is_deterministic:
            wait([self._judged])
        return self._take(best)

    def reject(self, shortage: Shortage) -> Bound:
        """Code that takes less of a resource that was short. Raises `PlanError` where there is none."""
        if self._is_deterministic:
            raise PlanError(f"{self._kernel}: {NO_OTHER_PLAN}")
        best = self._begin()
        with self._lock:
            if self._current is not None:  # else a plain plan took too much
                fallback, _ = self._current
                fallback.reject(shortage)
                self._current = (fallback, fallback.compile_first_fit())
        return self._take(best)

    def on_better(self, callback: Callable[[], None]) -> None:
        """Call `callback` once, in any thread, when `get` has better code than it gave, which may be now."""
        better: Future[Any] | None = self._best if self._current is None else self._judged
        if better is not None:
            better.add_done_callback(lambda done: None if done.exception() else callback())

    @property
    def is_plain(self) -> bool:
        """Whether `get` gave code of a plain plan."""
        return self._current is None

    @property
    def is_final(self) -> bool:
        return self._current is not None and self._judged is None

    def _begin(self) -> Future[_Best]:
        """The best code, which is being made or is there. If making it failed, it is started again."""
        with self._lock:
            if self._best is None or (self._best.done() and self._best.exception() is not None):
                self._begun = time.monotonic()
                self._best = self._known() or start_in_background(self._compile_best, self._kernel)
                self._compilation.session.note_pending(self._best)
            return self._best

    def _known(self) -> Future[_Best] | None:
        """The best code of a class of sizes, if it is there already: other calls share it."""
        if self._compilation.size_class is EXACT:
            return None
        fallback = self._compilation.plans.known_fallback(self._compilation.fitting_code)
        code = None if fallback is None else self._compilation.known_code(fallback.chosen.plan)
        if fallback is None or code is None or self._is_poor(fallback):
            return None
        known: Future[_Best] = Future()
        known.set_result((fallback, code))
        return known

    def _compile_best(self) -> _Best:
        found = self._first_fit()
        if not self._compilation.request.target.on_gpu:
            self._compilation.session.calibration.begin()
        elif self._compilation.plans.may_judge:
            self._begin_judging(found[0].chosen)
        return found

    def _begin_judging(self, present: Chosen | CachedPlan) -> None:
        """Judge plans by their binaries in the background; meanwhile calls run the `present` one."""
        from .judge_plans import judge_plans

        self._judged = start_in_background(partial(judge_plans, self._compilation, present), self._kernel)
        self._judged.add_done_callback(self._log_failure)
        self._compilation.session.note_pending(self._judged)

    def _judged_by_now(self) -> _Best | None:
        """The better plan, once after it is found."""
        judged = self._judged
        if judged is None or not judged.done():
            return None
        self._judged = None
        return None if judged.exception() is not None else judged.result()

    def _first_fit(self) -> _Best:
        try:
            found = self._compilation.plans.first_fit(self._compilation.fitting_code)
            if not self._is_poor(found[0]):
                return found
        except Error:
            if self._compilation.size_class is EXACT:
                raise
        self._compilation = self._compilation.of_class(EXACT)
        return self._compilation.plans.first_fit(self._compilation.fitting_code)

    def _is_poor(self, fallback: PlanFallback[Any]) -> bool:
        """Whether the largest sizes of a class take so much that only the bottom rung is left: the call's may not."""
        return self._compilation.size_class is not EXACT and fallback.chosen.rung == BOTTOM

    def _take(self, best: Future[_Best]) -> Bound:
        found = best.result()
        with self._lock:
            fallback, code = self._current = self._judged_by_now() or self._current or found
            while True:
                try:
                    bound = self._bind(code, fallback.chosen.plan, fallback.chosen.rung)
                    break
                except OutOfResources as error:
                    fallback.reject(error.shortage)
                    code = fallback.compile_first_fit()
                    self._current = (fallback, code)
            if self._is_late:
                self._is_late = False
                seconds = time.monotonic() - self._begun
                _log.info("%s on %s: the better plan is taken over, %.1f s after the first call",
                          self._kernel, self._slice, seconds)  # fmt: skip
        if fallback.chosen.rung == BOTTOM:
            warn_bottom_rung(self._compilation.session.log_once, self._kernel, self._slice, fallback)
        self._warn_if_slow(fallback)
        return bound

    def _warn_if_slow(self, fallback: PlanFallback[Any]) -> None:
        """Warn the caller, once for each kernel, slice and plan, of a plan that is far from what the device can do."""
        slow = self._compilation.plans.slow_plan(fallback)
        key = ("slow", self._kernel, self._slice, frozen(fallback.chosen.plan))
        if slow is not None and self._compilation.session.log_once.is_first(key):
            warn_caller(SlowPlanWarning(slow.message(self._kernel, self._slice)))

    def _plain(self, best: Future[Any], patience: float | None) -> Bound:
        with self._lock:
            is_first, self._is_late = not self._is_late, True
        if is_first:
            _log.info("%s on %s: a better plan is not ready after %g s; a plain one runs until it is",
                      self._kernel, self._slice, patience)  # fmt: skip
        last: OutOfResources | None = None
        for plan, rung in self._compilation.plans.plain():
            try:
                with shortages(), pause_compiles():
                    bound = self._bind(self._compilation.code_or_shortage(plan), plan, rung)
            except OutOfResources as error:
                last = error
                continue
            if is_first:  # else the caller gets the error
                best.add_done_callback(self._log_failure)
            return bound
        if last is None or not best.done():
            return self._take(best)
        raise last

    def _log_failure(self, best: Future[Any]) -> None:
        error = best.exception()
        if error is not None and not isinstance(error, AbandonedError):
            _log.error(
                "%s on %s: there is no better plan, the present one stays", self._kernel, self._slice, exc_info=error
            )


CodeProvider: TypeAlias = FixedPlanProvider[Bound] | TieredProvider[Bound]


def run_with_less_memory(
    provider: CodeProvider[Bound], error: OutOfMemoryError, put: Callable[[Bound], None], run: Callable[[Bound], None]
) -> Bound:
    """Run a call by a plan that takes less memory, after an `error`, and `put` its code for later calls.

    Raises `OutOfMemoryError` where no plan takes little enough.
    """
    while True:
        try:
            bound = provider.reject(Shortage(Resource.SWAP, 0, 0, f"finds too little memory ({error})"))
        except PlanError as exhausted:
            raise OutOfMemoryError(f"{error}\n{exhausted}") from error
        put(bound)
        try:
            run(bound)
        except OutOfMemoryError as again:
            error = again
        else:
            return bound


def warn_bottom_rung(log_once: LogOnce, kernel: str, slice: str, fallback: PlanFallback[Any]) -> None:
    """Log once for each kernel and slice that it runs on the bottom rung."""
    log_once.warning(
        _log, (kernel, slice),
        "%s on %s runs on the bottom rung: one element at a time, everything in memory. It is right, but far from "
        "fast: running is not yet running well. The best plan %s; `vk explain` tells more",
        kernel, slice, fallback.why_bottom,
    )  # fmt: skip
