"""How calls of one shape come to their code: by the author's plan, or by a chosen one that may take time to be made.

A first call waits `PATIENCE` seconds for the plan that is modelled best. Where its code is not ready by then, the
plainest plan's is made and run, and a later call takes the better one over.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from vkernels.ir.errors import OutOfMemoryError, PlanError
from vkernels.ir.plan import Plan
from vkernels.ir.planning.shortage import Lack, Shortage, ShortError

from .background import AbandonedError, begin, holding
from .ladder import BOTTOM, Descent, shortages
from .remembered import Remembered

_log = logging.getLogger(__name__)

PATIENCE = 2.0
"""Seconds that a first call waits for a better plan."""

_patient: list[None] = []
"""As many as want first calls to wait."""


@contextmanager
def patient() -> Iterator[None]:
    """Within, first calls wait for the plan that is modelled best however long its code takes to be made."""
    _patient.append(None)
    try:
        yield
    finally:
        _patient.pop()


Code = TypeVar("Code")
Ready = TypeVar("Ready")
ReadyOut = TypeVar("ReadyOut", covariant=True)

Finish = Callable[[Code, Plan, str], Ready]
"""Makes code ready for calls, in the thread of one, given its plan and rung. May raise `ShortError`."""


class Way(Protocol[ReadyOut]):
    """What calls of one shape run."""

    def get(self) -> ReadyOut:
        """What is best at the moment. Raises the author's mistakes; `PlanError` where no plan has code that fits."""
        ...

    def down(self, shortage: Shortage) -> ReadyOut:
        """What takes less of something that there was too little of. Raises `PlanError` where there is nothing."""
        ...

    def when_better(self, forget: Callable[[], None]) -> None:
        """Call `forget` once, in any thread, when `get` has something better than it gave, be it now."""
        ...

    @property
    def is_settled(self) -> bool:
        """Whether what `get` gave is the best: the way, which holds all that led to it, may be made anew if need be."""
        ...


def authors(kernel: str, error: ShortError) -> ShortError:
    """The error where it is the author's own plan whose code takes too much: nothing replaces that."""
    return ShortError(error.shortage, f"{kernel}: the plan that its author gives")


class AuthorsWay(Generic[Code, Ready]):
    """By the plan that the author gives, and no other. `code`: makes its code, which `finish` makes ready."""

    def __init__(self, kernel: str, plan: Plan, rung: str, code: Callable[[], Code], finish: Finish[Code, Ready]):
        self._kernel = kernel
        self._plan, self._rung, self._code, self._finish = plan, rung, code, finish

    def get(self) -> Ready:
        try:
            return self._finish(self._code(), self._plan, self._rung)
        except ShortError as error:
            raise authors(self._kernel, error) from error

    def down(self, shortage: Shortage) -> Ready:
        raise authors(self._kernel, ShortError(shortage))

    def when_better(self, forget: Callable[[], None]) -> None:
        """There is nothing better."""

    @property
    def is_settled(self) -> bool:
        return True


class ChosenWay(Generic[Code, Ready]):
    """By the best plan whose code fits.

    `make`: finds the best code that fits, and what leads further down; it works in any thread, `finish` in that of a
    call. `sure`: plans that take no choosing, with their rungs, and `code`: makes the code of one. `where`: the slice,
    as it is told. Safe to use from several threads.
    """

    def __init__(
        self,
        kernel: str,
        where: str,
        make: Callable[[], tuple[Descent[Code], Code]],
        sure: Callable[[], Iterator[tuple[Plan, str]]],
        code: Callable[[Plan], Code],
        finish: Finish[Code, Ready],
    ):
        self._kernel, self._where = kernel, where
        self._make, self._sure, self._code, self._finish = make, sure, code, finish
        self._lock = threading.Lock()
        self._best: Future[tuple[Descent[Code], Code]] | None = None
        self._begun = 0.0
        self._taken: tuple[Descent[Code], Code] | None = None
        self._is_late = False

    def get(self) -> Ready:
        best = self._begin()
        if not wait([best], None if _patient else max(0.0, self._begun + PATIENCE - time.monotonic())).done:
            return self._plainest(best)
        return self._take(best)

    def down(self, shortage: Shortage) -> Ready:
        best = self._begin()
        with self._lock:
            if self._taken is not None:  # else a plain plan took too much
                descent, _ = self._taken
                descent.down(shortage)
                self._taken = (descent, descent.land())
        return self._take(best)

    def when_better(self, forget: Callable[[], None]) -> None:
        best = self._best
        if self._taken is None and best is not None:
            best.add_done_callback(lambda done: None if done.exception() else forget())

    @property
    def is_settled(self) -> bool:
        return self._taken is not None

    def _begin(self) -> Future[tuple[Descent[Code], Code]]:
        """The best plan's code, in the making or made. One that failed is made again."""
        with self._lock:
            if self._best is None or (self._best.done() and self._best.exception() is not None):
                self._begun = time.monotonic()
                self._best = begin(self._make, self._kernel)
            return self._best

    def _take(self, best: Future[tuple[Descent[Code], Code]]) -> Ready:
        """The best code that can be made ready."""
        made = best.result()
        with self._lock:
            descent, code = self._taken = self._taken or made
            while True:
                try:
                    ready = self._finish(code, descent.chosen.plan, descent.chosen.rung)
                    break
                except ShortError as error:
                    descent.down(error.shortage)
                    code = descent.land()
                    self._taken = (descent, code)
            if self._is_late:
                self._is_late = False
                seconds = time.monotonic() - self._begun
                _log.info("%s on %s: the better plan is taken over, %.1f s after the first call",
                          self._kernel, self._where, seconds)  # fmt: skip
        if descent.chosen.rung == BOTTOM:
            warn_of_bottom(self._kernel, self._where, descent)
        return ready

    def _plainest(self, best: Future[Any]) -> Ready:
        with self._lock:
            is_first, self._is_late = not self._is_late, True
        if is_first:
            _log.info("%s on %s: a better plan is not ready after %g s; a plain one runs until it is",
                      self._kernel, self._where, PATIENCE)  # fmt: skip
        last: ShortError | None = None
        for plan, rung in self._sure():
            try:
                with shortages(), holding():
                    ready = self._finish(self._code(plan), plan, rung)
            except ShortError as error:
                last = error
                continue
            if is_first:  # else whoever calls is told
                best.add_done_callback(self._tell_failure)
            return ready
        if last is None or not best.done():
            return self._take(best)
        raise last

    def _tell_failure(self, best: Future[Any]) -> None:
        error = best.exception()
        if error is not None and not isinstance(error, AbandonedError):
            _log.error(
                "%s on %s: there is no better plan, the plain one stays", self._kernel, self._where, exc_info=error
            )


def with_less(
    way: Way[Ready], error: OutOfMemoryError, put: Callable[[Ready], None], run: Callable[[Ready], None]
) -> Ready:
    """Run a call by a plan that takes less memory, where there was too little of it, and let others run it from now on.

    Raises `OutOfMemoryError` where no plan takes little enough.
    """
    while True:
        try:
            ready = way.down(Shortage(Lack.SWAP, 0, 0, f"finds too little memory ({error})"))
        except PlanError as nothing:
            raise OutOfMemoryError(f"{error}\n{nothing}") from error
        put(ready)
        try:
            run(ready)
        except OutOfMemoryError as again:
            error = again
        else:
            return ready


_warned: set[tuple[str, str]] = set()


def warn_of_bottom(kernel: str, where: str, descent: Descent[Any]) -> None:
    """Say once for each kernel and slice that it runs on the bottom rung."""
    if (kernel, where) in _warned:
        return
    _warned.add((kernel, where))
    chosen = descent.chosen
    rejected = [] if isinstance(chosen, Remembered) else [each.reason for each in chosen.tried[:1]]
    reasons = [shortage.reason for _, shortage in descent.tried] or rejected or ["does not fit"]
    _log.warning(
        "%s on %s runs on the bottom rung: one element at a time, everything in memory. It is right, but far from "
        "fast: running is not yet running well. The best plan %s; `vk explain` tells more",
        kernel, where, reasons[0],
    )  # fmt: skip
