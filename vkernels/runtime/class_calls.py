"""Calls that run the code of a class of sizes, and note how long they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Protocol

from .events import LaunchRecord

WORTH_SECONDS = 1.0
"""Run time of one shape after which code for its sizes alone is compiled, in the background: some times as long as that
takes."""

GPU_SECONDS = 1e-3
"""What a call on a GPU counts as, at least: the host only starts it."""


class Calls(Protocol):
    """Code bound to a layout."""

    is_repeatable: bool

    @property
    def is_settled(self) -> bool: ...
    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None: ...
    def launch_record(self) -> LaunchRecord: ...


class ClassCalls:
    """Runs the code of a class for calls of one shape.

    `make_exact` is called once, with the addresses of a call, when they have run for long. `least`: seconds that a call
    counts as, at least.
    """

    def __init__(self, calls: Calls, make_exact: Callable[[Sequence[int]], object], least: float = 0.0):
        self._calls, self._least = calls, least
        self.is_repeatable = calls.is_repeatable
        self._make_exact: Callable[[Sequence[int]], object] | None = make_exact
        self._seconds = 0.0

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """Run the kernel on tensors at these addresses, with these scalars, in the order of the parameters."""
        start = perf_counter()
        self._calls.run(addresses, scalars)
        self._seconds += max(self._least, perf_counter() - start)
        if self._seconds > WORTH_SECONDS and (make_exact := self._make_exact) is not None:
            self._make_exact = None
            make_exact(addresses)

    @property
    def is_settled(self) -> bool:
        """Whether it was found out on how many threads calls run."""
        return self._calls.is_settled

    def launch_record(self) -> LaunchRecord:
        """How calls are run now."""
        return self._calls.launch_record()
