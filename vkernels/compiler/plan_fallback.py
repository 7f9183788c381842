"""The fallback ladder: which plan to try next where the code of one does not fit.

Needs predict; the compiled code's own figures decide (`vkernels.ir.planning.resources`). The next plan is the best of
those that are modelled to take clearly less of the resource that was short. After a few tries it is the bottom rung.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vkernels.ir.errors import PlanError
from vkernels.ir.plan import Plan
from vkernels.ir.planning.resources import OutOfResources, RefusedCodeError, Resource, Shortage
from vkernels.ir.system_resources import scarcity_of

from .background import checkpoint
from .plan_cache import CachedPlan
from .workers.jobs import NoBinaryError

if TYPE_CHECKING:
    from vkernels.ir.analysis.needs import NeedsUse
    from vkernels.ir.planning.choose_plan import Chosen
    from vkernels.ir.slow_plan import SlowPlan

_log = logging.getLogger(__name__)

MAX_TRIES = 3
"""Plans that are tried before the bottom rung."""

CLEARLY_LESS = 0.75
"""The next plan may take this part of the resource that was short, by the same model: nearer plans would fail alike."""

_NO_CODE = "has no code: "

BOTTOM = "bottom"

NO_OTHER_PLAN = "another plan could give other bits, so a deterministic call does not take one"
"""Why what may be different at another moment is an error."""

RankedPlans = Callable[[Callable[["NeedsUse"], bool]], "Iterator[Chosen]"]
"""Plans that fit by the model, the best first, the bottom rung's last, given a test of whether a plan is of use."""

Code = TypeVar("Code")


class SpillError(OutOfResources):
    """A plan's `code` can run, but spills more than a chosen plan should."""

    def __init__(self, shortage: Shortage, what: str, code: object):
        super().__init__(shortage, what)
        self.code: Any = code


def author_plan_error(kernel: str, error: OutOfResources) -> OutOfResources:
    """The error for an author's own plan whose code does not fit, or is refused: nothing replaces that plan."""
    kind = RefusedCodeError if isinstance(error, RefusedCodeError) else OutOfResources
    return kind(error.shortage, f"{kernel}: the plan that its author gives")


class PlanFallback(Generic[Code]):
    """The plans of one kernel, in the order in which they are tried. For one thread at a time.

    `chosen`: the present plan; `tried`: those before; `slow`: how a plan is slow, with the plan, once it was judged.
    `attempt`: makes a plan's code, and raises `OutOfResources` where
    a resource is short. The first code that only spills is kept, since the bottom rung is slower. `first`: a plan to
    try before any is chosen: a tuned or cached one. `unkept`: the author's pins that no plan can keep, asked for where
    none gives code.
    """

    def __init__(
        self,
        kernel: str,
        ranked: RankedPlans,
        attempt: Callable[[Plan], Code],
        first: CachedPlan | None = None,
        unkept: Callable[[], Sequence[str]] = tuple,
    ):
        self.kernel = kernel
        self.tried: list[tuple[Chosen, Shortage]] = []
        self.slow: tuple[Plan, SlowPlan | None] | None = None
        self._attempt = attempt
        self._unkept = unkept
        self._spilling: tuple[Chosen, Code] | None = None
        self._plans = ranked(self._is_useful)
        self.chosen: Chosen | CachedPlan = next(self._plans) if first is None else first

    @property
    def why_bottom(self) -> str | None:
        """Why the present plan is of the bottom rung; None if it is not."""
        if self.chosen.rung != BOTTOM:
            return None
        rejected = [] if isinstance(self.chosen, CachedPlan) else [each.reason for each in self.chosen.tried[:1]]
        return ([shortage.reason for _, shortage in self.tried] or rejected or ["does not fit"])[0]

    def compile_first_fit(self) -> Code:
        """The code of the first plan, from the present one on, that has some. Raises `PlanError` where none has."""
        while True:
            checkpoint()
            present, spilling = self.chosen, self._spilling
            if spilling is not None and present.rung == BOTTOM and not isinstance(present, CachedPlan):
                return self._return_to_spilling(*spilling, present)
            try:
                return self._attempt(self.chosen.plan)
            except SpillError as error:
                if isinstance(self.chosen, CachedPlan) or self.chosen.rung == BOTTOM:
                    code: Code = error.code
                    return code
                self._spilling = self._spilling or (self.chosen, error.code)
                self.reject(error.shortage)
            except OutOfResources as error:
                try:
                    self.reject(error.shortage)
                except PlanError as exhausted:
                    scarce = None if error.__cause__ is None else scarcity_of(error.__cause__)
                    if scarce is None:
                        raise
                    raise type(scarce)(str(exhausted)) from error

    def _return_to_spilling(self, spilling: Chosen, code: Code, bottom: Chosen) -> Code:
        """Take the plan that spills; the bottom rung is still the next."""
        self.chosen, self._spilling = spilling, None
        self._plans = chain([bottom], self._plans)
        _log.info("%s: all plans tried spill; the first of them, on the rung %s, is taken", self.kernel, spilling.rung)
        return code

    def reject(self, shortage: Shortage) -> None:
        """Take the next plan. Raises `PlanError`, which lists all that was tried, where there is none."""
        if isinstance(self.chosen, CachedPlan):  # nothing is known of its modelled needs
            self.chosen = next(self._plans)
            return
        self.tried.append((self.chosen, shortage))
        following = next_plan(self._plans, self.chosen, shortage, len(self.tried))
        if following is None:
            cause = next((tried for _, tried in self.tried if tried.place is not None), shortage)
            error = self._unkept_pins(cause) or PlanError(self._no_plan_left(), cause.place, help=cause.help)
            self.tried.pop()
            raise error
        _log.info("%s: a plan on the rung %s %s; the next is on %s",
                  self.kernel, self.chosen.rung, shortage.reason, following.rung)  # fmt: skip
        self.chosen = following

    def _is_useful(self, use: NeedsUse) -> bool:
        checkpoint()
        if len(self.tried) >= MAX_TRIES:
            return False
        return all(_is_less(use, failed, shortage.lack) for failed, shortage in self.tried)

    def _unkept_pins(self, cause: Shortage) -> PlanError | None:
        """The error for pins that no plan can keep; None where pins are not at fault."""
        if not (pins := self._unkept()):
            return None
        message = f"{self.kernel}: no plan can keep {' and '.join(pins)}: {cause.reason.removeprefix(_NO_CODE)}"
        other = "Leave them out: the plan then chooses." if len(pins) > 1 else "Leave it out: the plan then chooses."
        return PlanError(message, cause.place, help=" ".join(filter(None, (cause.help, other))))

    def _no_plan_left(self) -> str:
        tried = "\n".join(f"  {chosen.rung}: {shortage.reason}" for chosen, shortage in self.tried)
        return f"{self.kernel}: no plan gives code that can run here, not even that of the bottom rung; tried:\n{tried}"


def next_plan(plans: Iterator[Chosen], failed: Chosen, shortage: Shortage, tries: int = 1) -> Chosen | None:
    """The next of some ranked plans to try, where the code of one did not fit.

    The best that by the model takes clearly less of the resource that was short; the last, which is the bottom rung's,
    after `tries` of `MAX_TRIES`. None where the bottom rung's is the one that failed.
    """
    last = None
    for last in plans:
        if last.rung == BOTTOM or (tries < MAX_TRIES and _is_less(last.use, failed, shortage.lack)):
            return last
    return last


@contextmanager
def refusals() -> Iterator[None]:
    """Raise `RefusedCodeError`, with the compiler's reasons, where a compiler refuses code that we made."""
    try:
        yield
    except RuntimeError as error:
        raise RefusedCodeError(_no_code(error).shortage) from error


@contextmanager
def shortages(lasting: bool = False) -> Iterator[None]:
    """Raise `OutOfResources` in place of the errors that mean that a compiler gives no code for a plan: it refuses,
    dies, or takes too long or too much memory. An author's mistakes go through.

    `lasting`: only where it would refuse at any other time, too. Raises `ResourceError` where the system has no more
    files, disk or threads, of which no plan takes less.
    """
    try:
        with refusals():
            yield
    except OutOfResources:
        raise
    except (NoBinaryError, MemoryError) as error:
        if not lasting:
            raise _no_code(error) from error
        raise NoBinaryError(f"{error or 'too little memory to compile'}: {NO_OTHER_PLAN}") from error
    except OSError as error:
        raise scarcity_of(error, "compiling") or error from None
    except PlanError as error:
        raise _no_code(error) from error


def _no_code(error: Exception) -> OutOfResources:
    if isinstance(error, PlanError):
        return OutOfResources(Shortage(Resource.CODE, 0, 0, _NO_CODE + error.message, error.place, error.help))
    return OutOfResources(Shortage(Resource.CODE, 0, 0, _NO_CODE + (str(error) or type(error).__name__)))


_MODELLED: Mapping[Resource, Callable[[NeedsUse], float]] = {
    Resource.SHARED: lambda use: use.shared_bytes,
    Resource.THREADS: lambda use: use.threads,
    Resource.REGISTERS: lambda use: use.registers_a_thread * use.threads,
    Resource.TENSOR_MEMORY: lambda use: use.tensor_memory_columns,
    # Packed operands and partial results, a launch each, count where there is no swap space.
    Resource.SWAP: lambda use: use.swap_bytes + len(use.programs) - 1,
    Resource.PROGRAMS: lambda use: max(use.programs, default=1),
    Resource.CODE: lambda use: use.register_bytes,
}
"""The modelled use of each resource."""


def _is_less(use: NeedsUse, failed: Chosen, lack: Resource) -> bool:
    """Whether a plan takes clearly less than one that failed, or is that one without persistent programs."""
    than = failed.use
    is_its_grid = (use.threads, use.register_bytes) == (than.threads, than.register_bytes)
    if failed.plan.resident_programs and is_its_grid and use.registers_a_thread < than.registers_a_thread:
        return True
    return _MODELLED[lack](use) <= CLEARLY_LESS * _MODELLED[lack](than)
