"""Calls that run the code of a class of sizes, and take the time that this takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from .bound_executable import BoundExecutable
from .events import LaunchRecord

WORTH_SECONDS = 1.0
"""Run time of one shape after which code for its sizes alone is compiled, in the background: some times as long as that
takes."""


class ClassCalls:
    """Runs the code of a class for calls of one shape. `make_exact` is called once, when it has run for long."""

    def __init__(self, bound: BoundExecutable, make_exact: Callable[[], object]):
        self.bound = bound
        self._make_exact: Callable[[], object] | None = make_exact
        self._seconds = 0.0

    def run(self, addresses: Sequence[int], scalars: Sequence[bool | int | float]) -> None:
        """Run the kernel on tensors at these addresses, with these scalars, in the order of the parameters."""
        start = perf_counter()
        self.bound.run(addresses, scalars)
        self._seconds += perf_counter() - start
        if self._seconds > WORTH_SECONDS and (make_exact := self._make_exact) is not None:
            self._make_exact = None
            make_exact()

    def launch_record(self) -> LaunchRecord:
        """How calls are run now."""
        return self.bound.launch_record()
