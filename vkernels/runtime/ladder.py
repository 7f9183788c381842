"""The way down the ladder: which plan to try where the code of one turned out not to fit.

Needs predict; the compiled code's own figures decide (`vkernels.ir.planning.shortage`). What it takes too much of says
which plan to try next: the best of those that are modelled to take clearly less of that. After a few, the bottom rung.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vkernels.ir.errors import PlanError
from vkernels.ir.plan import Plan
from vkernels.ir.planning.shortage import Lack, Shortage, ShortError
from vkernels.ir.scarcity import scarcity_of

from .background import checkpoint
from .compile.jobs import NoBinaryError
from .remembered import Remembered

if TYPE_CHECKING:
    from vkernels.ir.needs import Use
    from vkernels.ir.planning.choose_plan import Chosen

_log = logging.getLogger(__name__)

TRIES = 3
"""Plans whose code did not fit before the bottom rung is next."""

CLEARLY = 0.75
"""Part of what a plan took too much of that the next may take by the same model: nearer plans would fail alike."""

BOTTOM = "bottom"

PlansDown = Callable[[Callable[["Use"], bool]], "Iterator[Chosen]"]
"""Plans that fit, the best first, the bottom rung's last; given what says whether a plan that takes so
much is of use."""

Code = TypeVar("Code")


class SpillError(ShortError):
    """A plan's `code` can run, but spills more than a chosen plan should."""

    def __init__(self, shortage: Shortage, what: str, code: object):
        super().__init__(shortage, what)
        self.code: Any = code


class Descent(Generic[Code]):
    """The plans of one kernel, in the order in which they are tried.

    `chosen`: the present one; `tried`: those before. `attempt`: makes a plan's code, and raises `ShortError` where
    there is too little of something: of what merely spills the first is kept, which the bottom rung is slower than.
    `remembered`: a plan that once came of this, tried before any is chosen. For one thread at a time.
    """

    def __init__(
        self, kernel: str, plans: PlansDown, attempt: Callable[[Plan], Code], remembered: Remembered | None = None
    ):
        self.kernel = kernel
        self.tried: list[tuple[Chosen, Shortage]] = []
        self._attempt = attempt
        self._spilling: tuple[Chosen, Code] | None = None
        self._plans = plans(self._is_wanted)
        self.chosen: Chosen | Remembered = next(self._plans) if remembered is None else remembered

    def land(self) -> Code:
        """The code of the first plan, from the present one on, that has some. Raises `PlanError` where none has."""
        while True:
            checkpoint()
            present, spilling = self.chosen, self._spilling
            if spilling is not None and present.rung == BOTTOM and not isinstance(present, Remembered):
                return self._back_to_what_spills(*spilling, present)
            try:
                return self._attempt(self.chosen.plan)
            except SpillError as error:
                if isinstance(self.chosen, Remembered) or self.chosen.rung == BOTTOM:
                    code: Code = error.code
                    return code
                self._spilling = self._spilling or (self.chosen, error.code)
                self.down(error.shortage)
            except ShortError as error:
                try:
                    self.down(error.shortage)
                except PlanError as nothing:
                    scarce = None if error.__cause__ is None else scarcity_of(error.__cause__)
                    if scarce is None:
                        raise
                    raise type(scarce)(str(nothing)) from error

    def _back_to_what_spills(self, spilling: Chosen, code: Code, bottom: Chosen) -> Code:
        """The bottom rung stays where the way leads further down."""
        self.chosen, self._spilling = spilling, None
        self._plans = chain([bottom], self._plans)
        _log.info("%s: all plans tried spill; the first of them, on the rung %s, is taken", self.kernel, spilling.rung)
        return code

    def down(self, shortage: Shortage) -> None:
        """Leave the present plan for the next. Raises `PlanError` that says all that was tried where there is none."""
        if isinstance(self.chosen, Remembered):  # of which nobody knows what it was modelled to take
            self.chosen = next(self._plans)
            return
        self.tried.append((self.chosen, shortage))
        following = next_down(self._plans, self.chosen, shortage, len(self.tried))
        if following is None:
            message, place = self._nothing(), next((s.place for _, s in self.tried if s.place is not None), None)
            self.tried.pop()
            raise PlanError(message, place)
        _log.info("%s: a plan on the rung %s %s; the next is on %s",
                  self.kernel, self.chosen.rung, shortage.reason, following.rung)  # fmt: skip
        self.chosen = following

    def _is_wanted(self, use: Use) -> bool:
        checkpoint()
        if len(self.tried) >= TRIES:
            return False
        return all(_is_less(use, failed.use, shortage.lack) for failed, shortage in self.tried)

    def _nothing(self) -> str:
        tried = "\n".join(f"  {chosen.rung}: {shortage.reason}" for chosen, shortage in self.tried)
        return f"{self.kernel}: no plan gives code that can run here, not even that of the bottom rung; tried:\n{tried}"


def next_down(plans: Iterator[Chosen], failed: Chosen, shortage: Shortage, tries: int = 1) -> Chosen | None:
    """The next plan to try, of those that `plans_down` has left, where the code of one did not fit.

    The best that by the model takes clearly less of what there was too little of; the last, which is the bottom
    rung's, after `tries` of `TRIES`. None where the bottom rung's is what failed.
    """
    last = None
    for last in plans:
        if last.rung == BOTTOM or (tries < TRIES and _is_less(last.use, failed.use, shortage.lack)):
            return last
    return last


@contextmanager
def shortages() -> Iterator[None]:
    """Raise `ShortError` where a compiler gives no code for a plan that was chosen: it refuses, dies, or takes too long
    or too much memory; `PlanError` and what Triton, LLVM and Python raise then. An author's mistakes go through.

    Raises `ResourceError` where the system has no more files, disk or threads, of which no plan takes less.
    """
    try:
        yield
    except ShortError:
        raise
    except OSError as error:
        raise scarcity_of(error, "compiling") or error from None
    except (PlanError, NoBinaryError, RuntimeError, MemoryError) as error:
        message, place = (error.message, error.place) if isinstance(error, PlanError) else (str(error), None)
        reason = f"has no code: {message or type(error).__name__}"
        raise ShortError(Shortage(Lack.CODE, 0, 0, reason, place)) from error


def _is_less(use: Use, than: Use, lack: Lack) -> bool:
    """Whether one plan is modelled to take clearly less of a resource than another."""
    return _modelled(use, lack) <= CLEARLY * _modelled(than, lack)


def _modelled(use: Use, lack: Lack) -> float:
    match lack:
        case Lack.SHARED:
            return use.shared_bytes
        case Lack.THREADS:
            return use.threads
        case Lack.REGISTERS:
            return use.registers_a_thread * use.threads
        case Lack.TENSOR_MEMORY:
            return use.tensor_memory_columns
        case Lack.SWAP:  # packed operands and partial results, a launch each, count where there is no swap space
            return use.swap_bytes + use.launches - 1
        case Lack.PROGRAMS:
            return max(use.programs, default=1)
        case Lack.CODE:
            return use.register_bytes
