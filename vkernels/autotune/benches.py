"""Benches of one task on several slices at once: on cores of their own, and what one has measured serves its like."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from queue import LifoQueue
from threading import Lock
from types import TracebackType

from vkernels.compiler.arguments import CPU
from vkernels.inspect.task import Task
from vkernels.ir.errors import Error
from vkernels.ir.system_resources import ThreadPool

from .measure import Bench, BenchOptions, Candidate, Measurement, Measures, Outcome
from .measure.cpu_affinity import CpuAffinity, place_of, usable
from .measure.lock import lock_names, locked
from .measure.measures import CANDIDATE_SECONDS
from .shared_rerank import SharedFinals

DEFAULT_OPTIONS = BenchOptions()
MakeBench = Callable[[Task, str, BenchOptions], Bench]
_Kind = tuple[str, int]


@dataclass(frozen=True)
class Counted:
    """Candidates that were asked for, on all slices together, and those of them that were measured: the rest another
    slice on as many cores of the same kind had measured before."""

    asked: int
    measured: int


def core_sets(count: int, wanted: int, mine: Sequence[int], lane: int = 0) -> list[tuple[int, ...]]:
    """Sets of so many cores each that have none in common, as many as are wanted or there are. The last cores first;
    `lane`: the number of a set to begin with, so that who works beside another begins elsewhere."""
    sets = [tuple(mine[at - count : at]) for at in range(len(mine), count - 1, -count)]
    lane %= len(sets)
    return (sets[lane:] + sets[:lane])[: max(1, wanted)]


class SharedBench(Measures):
    """A slice's bench: any of those on as many cores, and what they have measured before. `best`: the least seconds on
    this slice so far."""

    def __init__(self, benches: Benches, slice: str, place: CpuAffinity):
        self.task, self.slice, self.place = benches.task, slice, place
        self.best: float | None = None
        self._benches = benches
        self._heard = 0
        self._stale = False

    def measure(self, candidate: Candidate, timeout: float = CANDIDATE_SECONDS, best: float | None = None) -> Outcome:
        """As `Bench.measure`; what was measured for a slice on as many cores is not measured again."""
        self._benches.search_on(self.slice, self.place)
        outcome = self._benches.measure(self.place, candidate, timeout, self.best if best is None else best)
        if isinstance(outcome, Measurement) and (self.best is None or outcome.seconds < self.best):
            self.best = outcome.seconds
        return outcome

    def shared_outcomes(self) -> list[tuple[Candidate, Outcome]]:
        """What was measured on as many cores since this was asked last, for whichever slice."""
        found = self._benches.log(self.place, self._heard)
        self._heard += len(found)
        return found

    def paired_comparison(
        self, candidates: Sequence[Candidate], timeout: float | None = None, alone: bool = False
    ) -> list[Outcome]:
        """As `Bench.paired_comparison`; together with the finalists of slices on as many cores, if tuned at once.
        `alone`: while nobody measures on any other core of this process."""
        stale, self._stale = self._stale, False
        return self._benches.paired_comparison(self.slice, self.place, candidates, timeout, alone, stale)

    def renew_inputs(self) -> None:
        """As `Bench.renew_inputs`, for the next comparison; other slices may measure on the same inputs meanwhile."""
        self._stale = True


class Benches:
    """Benches of one task for several slices. A context manager; each slice's own is for one thread.

    Slices on as many cores of the CPU are the same to a measurement and differ in limits alone: they share benches, as
    many as there are cores for at once, and what one of them has measured. Code is compiled once for all, since workers
    keep it on disk. `lane`: a number that others who work at the same time do not have.
    """

    def __init__(
        self,
        task: Task,
        slices: Sequence[str],
        options: BenchOptions = DEFAULT_OPTIONS,
        make: MakeBench = Bench,
        lane: int = 0,
        most: int | None = None,
    ):
        """`most`: sets of cores for as many alike slices; as many as there are unless given.

        Raises `OptionError` for a slice that there is not, and `SetupError` for one that is not here."""
        self.task, self.slices, self._options = task, tuple(slices), options
        self._places = {name: place_of(name) for name in slices}
        self._benches: dict[_Kind, list[Bench]] = {}
        self._free: dict[_Kind, LifoQueue[Bench]] = {}
        for name, place in self._places.items():
            kind = _kind(place)
            if kind not in self._benches:
                alike = sum(_kind(other) == kind for other in self._places.values())
                on_cpu = place.device == CPU
                wanted = alike if most is None else min(alike, most)
                sets = core_sets(len(place.cores), wanted, usable(), lane) if on_cpu else [place.cores]
                self._benches[kind] = [make(task, name, replace(options, cores=cores)) for cores in sets]
                self._free[kind] = LifoQueue()
                for bench in reversed(self._benches[kind]):
                    self._free[kind].put(bench)
        self._lock = Lock()
        self._known: dict[Hashable, Future[Outcome | None]] = {}
        self._log: dict[_Kind, list[tuple[Candidate, Outcome]]] = {}
        self._finals: dict[_Kind, SharedFinals] = {}
        self._asked = 0
        self.interrupted = False

    def on(self, slice: str) -> SharedBench:
        """The bench of one of the slices."""
        return SharedBench(self, slice, self._places[slice])

    @contextmanager
    def bench(self, place: CpuAffinity) -> Iterator[Bench]:
        """One of those of a kind, for a while; waits for one. Raises `KeyboardInterrupt` after an interrupt."""
        free = self._free[_kind(place)]
        bench = free.get()
        try:
            self._go_on()
            yield bench
            self._go_on()
        finally:
            free.put(bench)

    @property
    def spent(self) -> dict[str, float]:
        """Seconds by what all workers spent them on."""
        total: dict[str, float] = {}
        for bench in self._all:
            for what, seconds in bench.spent.items():
                total[what] = total.get(what, 0.0) + seconds
        return total

    @property
    def counted(self) -> Counted:
        """How much the slices had in common."""
        return Counted(self._asked, len(self._known))

    def measure(self, place: CpuAffinity, candidate: Candidate, timeout: float, best: float | None) -> Outcome:
        """By a bench of this kind, unless one did or does."""
        key = (_kind(place), candidate.key)
        with self._lock:
            self._asked += 1
            known = self._known.get(key)
            mine = known is None
            if known is None:
                known = self._known[key] = Future()
        if not mine:
            found = known.result()
            self._go_on()
            return found or self.measure(place, candidate, timeout, best)
        try:
            with self.bench(place) as bench:
                outcome = bench.measure(candidate, timeout, best)
        except BaseException:
            with self._lock:
                del self._known[key]
            known.set_result(None)  # whoever waits for it tries it
            raise
        with self._lock:
            self._log.setdefault(_kind(place), []).append((candidate, outcome))
        known.set_result(outcome)
        return outcome

    def search_on(self, slice: str, place: CpuAffinity) -> None:
        """Nobody waits for a slice that fought and measures by itself again."""
        finals = self._finals.get(_kind(place))
        if finals is not None:
            finals.search_on(slice)

    def paired_comparison(
        self,
        slice: str,
        place: CpuAffinity,
        candidates: Sequence[Candidate],
        timeout: float | None,
        alone: bool,
        stale: bool,
    ) -> list[Outcome]:
        """By a bench of this kind; on other arguments than it had where those are `stale`."""

        def run(some: list[Candidate]) -> list[Outcome]:
            with self.bench(place) as bench:
                if stale:
                    bench.renew_inputs()
                return bench.paired_comparison(some, timeout, hold=usable() if alone else None)

        finals = self._finals.get(_kind(place))
        return run(list(candidates)) if alone or finals is None else finals.paired_comparison(slice, candidates, run)

    @contextmanager
    def at_work(self) -> Iterator[Callable[[str], None]]:
        """While all slices are tuned at once, those that are alike share one comparison. Gives what to call with each
        slice that has ended."""
        kinds: dict[_Kind, list[str]] = {}
        for name, place in self._places.items():
            kinds.setdefault(_kind(place), []).append(name)
        self._finals = {kind: SharedFinals(names) for kind, names in kinds.items()}
        try:
            yield lambda name: self._finals[_kind(self._places[name])].leave(name)
        finally:
            self._finals = {}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Have a core for what this process works out itself, so that it disturbs nobody who measures. It takes long:
        it is the first core, which who wants several waits for before it holds any other."""
        if not any(place.device == CPU for place in self._places.values()):
            yield
            return
        with locked(lock_names(CPU, usable()[:1]), self._options.bounds.lock_seconds, self._options.locks):
            yield

    def log(self, place: CpuAffinity, since: int) -> list[tuple[Candidate, Outcome]]:
        """What was measured on a kind of cores, in order, after the first `since`."""
        with self._lock:
            return self._log.get(_kind(place), [])[since:]

    def start(self) -> None:
        """Have all workers started, as far as they can be; who measures is told why one cannot. The first one chooses
        the reference's plans for all."""
        if not self._all:
            return
        first, *others = self._all
        with suppress(Error):
            first.start()
        for bench in others:
            bench.plans = first.plans
        with ThreadPool(max(1, len(others))) as pool:
            for future in [pool.submit(bench.start) for bench in others]:
                with suppress(Error):
                    future.result()

    def interrupt(self) -> None:
        """Have all that is being measured end at once, and nothing measured from now on: whoever asks is interrupted,
        in its own thread."""
        self.interrupted = True
        for finals in list(self._finals.values()):
            finals.give_up()
        for bench in self._all:
            bench.interrupt()

    def close(self) -> None:
        """End all workers."""
        for bench in self._all:
            bench.close()

    @property
    def _all(self) -> list[Bench]:
        return [bench for benches in self._benches.values() for bench in benches]

    def _go_on(self) -> None:
        if self.interrupted:
            raise KeyboardInterrupt

    def __enter__(self) -> Benches:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _kind(place: CpuAffinity) -> _Kind:
    """What is the same to a measurement."""
    return place.device, len(place.cores)
