"""Benches of one task on several slices at once: on cores of their own, and what one has measured serves its like."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from threading import Lock
from types import TracebackType

from vkernels.runtime.arrays import CPU
from vkernels.runtime.keys import frozen

from .measure import Bench, Candidate, Failed, Measured, Options, Outcome, Reason
from .measure.bench import TIMEOUT
from .measure.places import Place, place_of, usable
from .task import Task

USUAL = Options()
MakeBench = Callable[[Task, str, Options], Bench]


@dataclass(frozen=True)
class Counted:
    """Candidates that were asked for, on all slices together, and those of them that were measured: the rest another
    slice on as many cores of the same kind had measured before."""

    asked: int
    measured: int


def cores_apart(slices: Sequence[str], mine: Sequence[int] | None = None) -> dict[str, tuple[int, ...]]:
    """Cores for each slice of the CPU, different ones as far as they go: slices that share some take turns there.

    Raises `OptionError` for a slice that there is not.
    """
    mine = usable() if mine is None else tuple(mine)
    found: dict[str, tuple[int, ...]] = {}
    at = len(mine)
    for name in slices:
        place = place_of(name)
        if place.device != CPU:
            found[name] = place.cores
            continue
        count = len(place.cores)
        at = at - count if at >= count else len(mine) - count
        found[name] = tuple(mine[at : at + count])
    return found


class SharedBench:
    """A slice's bench, that asks the others first. `best`: the least seconds on this slice so far."""

    def __init__(self, benches: Benches, slice: str, bench: Bench):
        self.task, self.slice, self.bench = bench.task, slice, bench
        self.best: float | None = None
        self._benches = benches

    def measure(self, candidate: Candidate, timeout: float = TIMEOUT, best: float | None = None) -> Outcome:
        """As `Bench.measure`; what a slice on as many cores has measured is not measured again."""
        best = self.best if best is None else best
        self._benches.go_on()
        outcome = self._benches.measure(self.bench, candidate, timeout, best)
        self._benches.go_on()
        if isinstance(outcome, Measured) and (self.best is None or outcome.seconds < self.best):
            self.best = outcome.seconds
        return outcome

    def duel(self, candidates: Sequence[Candidate], timeout: float | None = None) -> list[Outcome]:
        """As `Bench.duel`, while nobody measures on any other core of this process."""
        self._benches.go_on()
        return self.bench.duel(candidates, timeout, hold=usable())

    @property
    def restarts(self) -> int:
        return self.bench.restarts

    @property
    def place(self) -> Place:
        return self.bench.place

    @property
    def options(self) -> Options:
        return self.bench.options

    @property
    def spent(self) -> Mapping[str, float]:
        """Seconds by what this slice's workers spent them on."""
        return self.bench.spent

    def start(self) -> None:
        """As `Bench.start`."""
        self.bench.start()

    def close(self) -> None:
        """End the worker."""
        self.bench.close()

    def __enter__(self) -> SharedBench:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing: `Benches` ends all."""


class Benches:
    """Benches of one task on several slices. A context manager; each slice's bench is for one thread.

    Slices of the CPU get cores of their own as long as there are any. Code is compiled once for all, since workers keep
    it on disk; slices on as many cores differ in limits alone, so that what one has measured is the other's too.
    """

    def __init__(self, task: Task, slices: Sequence[str], options: Options = USUAL, make: MakeBench = Bench):
        """Raises `OptionError` for a slice that there is not, and `SetupError` for one that is not here."""
        cores = cores_apart(slices)
        self.slices = tuple(slices)
        self._shared = {
            name: SharedBench(self, name, make(task, name, replace(options, cores=cores[name]))) for name in slices
        }
        self._lock = Lock()
        self._known: dict[Hashable, Future[Outcome]] = {}
        self._asked = 0
        self.interrupted = False

    def on(self, slice: str) -> SharedBench:
        """The bench of one of the slices."""
        return self._shared[slice]

    @property
    def counted(self) -> Counted:
        """How much the slices had in common."""
        return Counted(self._asked, len(self._known))

    def measure(self, bench: Bench, candidate: Candidate, timeout: float, best: float | None) -> Outcome:
        """By this bench, unless one like it did or does."""
        key = (bench.place.device, len(bench.place.cores), frozen(candidate))
        with self._lock:
            self._asked += 1
            known = self._known.get(key)
            mine = known is None
            if known is None:
                known = self._known[key] = Future()
        if not mine:
            return known.result()
        try:
            outcome = bench.measure(candidate, timeout, best)
        except BaseException as error:
            known.set_result(Failed(Reason.REFUSED, f"it was not measured: {error}"))
            with self._lock:
                del self._known[key]
            raise
        known.set_result(outcome)
        return outcome

    def interrupt(self) -> None:
        """Have all that is being measured end at once, and nothing measured from now on: whoever asks is interrupted,
        in its own thread."""
        self.interrupted = True
        for shared in self._shared.values():
            shared.bench.interrupt()

    def go_on(self) -> None:
        """Raise `KeyboardInterrupt` after an interrupt."""
        if self.interrupted:
            raise KeyboardInterrupt

    def close(self) -> None:
        """End all workers."""
        for shared in self._shared.values():
            shared.close()

    def __enter__(self) -> Benches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
