"""Benches without workers: times are what a function says, after a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from vkernels.autotune.measure import BenchOptions, Candidate, Measurement, Measures, Outcome
from vkernels.autotune.measure.measures import by_setting
from vkernels.autotune.slice_names import place_of
from vkernels.inspect.task import Task


class FakeBench(Measures):
    """`times`: seconds, or another outcome, of a candidate on a slice."""

    made: list[FakeBench]

    def __init__(
        self, task: Task, slice: str, options: BenchOptions, times: Callable[[str, Candidate], float | Outcome]
    ):
        self.task, self.slice, self.options, self.times = task, slice, options, times
        self.place = place_of(slice, options.cores)
        self.restarts, self.best, self.spent = 0, None, {"timing": 1.0}
        self.measured: list[Candidate] = []
        self.plans: list[object] = []
        self.held: list[Sequence[int] | None] = []
        self.closed = self.interrupted = False
        self.renewed = 0
        self._ended = threading.Event()

    def start(self) -> None:
        pass

    def measure(
        self, candidate: Candidate, timeout: float = 1.0, best: float | None = None, *, setting=None
    ) -> Outcome:
        self.measured.append(candidate)
        time.sleep(0.001)
        return self._outcome(candidate)

    def paired_comparison(
        self, candidates: Sequence[Candidate], timeout=None, hold=None, *, setting=None
    ) -> list[Outcome]:
        self.held.append(hold)
        return [self._outcome(candidate) for candidate in candidates]

    def compare_in(self, settings, candidates: Sequence[Candidate], hold=None):
        return by_setting(lambda setting: self.paired_comparison(candidates, hold=hold), settings)

    def renew_inputs(self) -> None:
        self.renewed += 1

    def interrupt(self) -> None:
        self.interrupted = True

    def close(self) -> None:
        self.closed = True

    def _outcome(self, candidate: Candidate) -> Outcome:
        found = self.times(self.slice, candidate)
        return Measurement(found, found, found, 9) if isinstance(found, float) else found


def maker(times: Callable[[str, Candidate], float | Outcome]):
    """What makes such benches, and a list of those that it made."""
    made: list[FakeBench] = []

    def make(task: Task, slice: str, options: BenchOptions):
        made.append(FakeBench(task, slice, options, times))
        return made[-1]

    return make, made
