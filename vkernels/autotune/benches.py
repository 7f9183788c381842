"""Benches of one task on several slices at once: on separate cores; equal slices share measurements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, replace
from queue import LifoQueue
from threading import Lock

from vkernels.compiler.arguments import CPU
from vkernels.inspect.task import Task
from vkernels.ir.errors import Error
from vkernels.ir.system_resources import ThreadPool

from .measure import Bench, BenchOptions, BySetting, Candidate, Failed, Measurement, Measures, Outcome, Setting
from .measure.lock import lock_names, locked
from .measure.measures import CANDIDATE_SECONDS
from .shared_finals import SharedFinals
from .slice_names import CpuAffinity, place_of, usable

DEFAULT_OPTIONS = BenchOptions()
MakeBench = Callable[[Task, str, BenchOptions], Bench]
_Kind = tuple[str, int]


@dataclass(frozen=True)
class Counted:
    """Numbers of candidates that all slices proposed, and that were measured: equal slices share measurements."""

    asked: int
    measured: int


def core_sets(count: int, wanted: int, mine: Sequence[int], lane: int = 0) -> list[tuple[int, ...]]:
    """Disjoint sets of `count` cores each, as many as are wanted or possible, the last cores first.

    `lane`: the number of the first set, so that parallel work uses other cores.
    """
    sets = [tuple(mine[at - count : at]) for at in range(len(mine), count - 1, -count)]
    lane %= len(sets)
    return (sets[lane:] + sets[:lane])[: max(1, wanted)]


class SharedBench(Measures):
    """The bench of one slice, which shares benches and measurements with equal slices. `best`: its least seconds."""

    def __init__(self, benches: Benches, slice: str, place: CpuAffinity):
        self.task, self.slice, self.place = benches.task, slice, place
        self.best: float | None = None
        self._benches = benches
        self._seen = 0
        self._stale = False

    def measure(
        self,
        candidate: Candidate,
        timeout: float = CANDIDATE_SECONDS,
        best: float | None = None,
        *,
        setting: Setting = Setting.COLD,
    ) -> Outcome:
        """As `Bench.measure`, but candidates measured for an equal slice are not measured again."""
        self._benches.search_on(self.slice, self.place)
        best = self.best if best is None else best
        outcome = self._benches.measure(self.place, candidate, timeout, best, setting)
        if isinstance(outcome, Measurement) and (self.best is None or outcome.seconds < self.best):
            self.best = outcome.seconds
        return outcome

    @property
    def at_once(self) -> int:
        """As of `Bench`; several slices of a CPU have no cores to spare."""
        if self.place.device == CPU and len(self._benches.slices) > 1:
            return 1
        return self._benches.at_once(self.place)

    def prepare(self, candidates: Sequence[Candidate], timeout: float = CANDIDATE_SECONDS) -> list[Failed | None]:
        """As `Bench.prepare`."""
        with self._benches.bench(self.place) as bench:
            return bench.prepare(candidates, timeout)

    def shared_outcomes(self) -> list[tuple[Candidate, Outcome]]:
        """Measurements of all equal slices since the last call."""
        found = self._benches.log(self.place, self._seen)
        self._seen += len(found)
        return found

    def paired_comparison(
        self, candidates: Sequence[Candidate], *, alone: bool = False, setting: Setting = Setting.COLD
    ) -> list[Outcome]:  # fmt: skip
        """As `compare_in`, in one setting."""
        return [each[setting] for each in self.compare_in([setting], candidates, alone=alone)]

    def compare_in(
        self, settings: Sequence[Setting], candidates: Sequence[Candidate], *, alone: bool = False
    ) -> list[BySetting]:  # fmt: skip
        """As `Bench.compare_in`, together with the finalists of equal slices, which ask for the same settings.

        `alone`: only this slice's, while nobody measures on any other core of this process.
        """
        stale, self._stale = self._stale, False
        return self._benches.compare_in(settings, self.slice, self.place, candidates, alone, stale)

    def renew_inputs(self) -> None:
        """As `Bench.renew_inputs`, for the next comparison only: other slices share the inputs."""
        self._stale = True


class Benches(AbstractContextManager["Benches"]):
    """Benches of one task for several slices. Each slice's bench is for one thread.

    Slices with equally many CPU cores differ only in their limits, so they share measurements, and benches on as many
    disjoint sets of cores as there are. Workers keep code on disk, so it is compiled once. `lane`: different for
    everything that is tuned at the same time.
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
        """`most`: maximal number of core sets for equal slices.

        Raises `OptionError` for an unknown slice, and `SetupError` for an absent one.
        """
        self.task, self.slices, self._options = task, tuple(slices), options
        self._places = {name: place_of(name) for name in slices}
        self._benches: dict[_Kind, list[Bench]] = {}
        self._free: dict[_Kind, LifoQueue[Bench]] = {}
        kinds = Counter(map(_kind, self._places.values()))
        for name, place in self._places.items():
            kind = _kind(place)
            if kind in self._benches:
                continue
            wanted = kinds[kind] if most is None else min(kinds[kind], most)
            sets = core_sets(len(place.cores), wanted, usable(), lane) if place.device == CPU else [place.cores]
            self._benches[kind] = [make(task, name, replace(options, cores=cores)) for cores in sets]
            self._free[kind] = LifoQueue()
            for bench in reversed(self._benches[kind]):
                self._free[kind].put(bench)
        self._lock = Lock()
        self._known: dict[Hashable, Future[Outcome | None]] = {}
        self._log: dict[_Kind, list[tuple[Candidate, Outcome]]] = {}
        self._finals: dict[_Kind, SharedFinals[BySetting]] = {}
        self._asked = 0
        self.interrupted = False

    def on(self, slice: str) -> SharedBench:
        """The bench of a slice."""
        return SharedBench(self, slice, self._places[slice])

    @contextmanager
    def bench(self, place: CpuAffinity) -> Iterator[Bench]:
        """Borrow a bench for this kind of slice, or wait for one. Raises `KeyboardInterrupt` after an interrupt."""
        free = self._free[_kind(place)]
        bench = free.get()
        try:
            self._check_interrupt()
            yield bench
            self._check_interrupt()
        finally:
            free.put(bench)

    def at_once(self, place: CpuAffinity) -> int:
        """How many candidates a bench of this kind of slice prepares together."""
        return self._benches[_kind(place)][0].at_once

    @property
    def spent(self) -> dict[str, float]:
        """Seconds of all workers, by activity."""
        activities = dict.fromkeys(what for bench in self._all for what in bench.spent)
        return {what: sum(bench.spent.get(what, 0.0) for bench in self._all) for what in activities}

    @property
    def counted(self) -> Counted:
        """Numbers of proposed and of measured candidates."""
        return Counted(self._asked, len(self._known))

    def measure(
        self, place: CpuAffinity, candidate: Candidate, timeout: float, best: float | None, setting: Setting
    ) -> Outcome:  # fmt: skip
        """Measure a candidate for this kind of slice, unless it was measured or is being measured.

        All slices search in the same setting.
        """
        key = (_kind(place), candidate.key)
        with self._lock:
            self._asked += 1
            known = self._known.get(key)
            mine = known is None
            if known is None:
                known = self._known[key] = Future()
        if not mine:
            found = known.result()
            self._check_interrupt()
            return found or self.measure(place, candidate, timeout, best, setting)
        try:
            with self.bench(place) as bench:
                outcome = bench.measure(candidate, timeout, best, setting=setting)
        except BaseException:
            with self._lock:
                del self._known[key]
            known.set_result(None)  # threads that wait for it measure it
            raise
        with self._lock:
            self._log.setdefault(_kind(place), []).append((candidate, outcome))
        known.set_result(outcome)
        return outcome

    def search_on(self, slice: str, place: CpuAffinity) -> None:
        """A slice searches again; others do not wait for it in comparisons."""
        finals = self._finals.get(_kind(place))
        if finals is not None:
            finals.search_on(slice)

    def compare_in(
        self,
        settings: Sequence[Setting],
        slice: str,
        place: CpuAffinity,
        candidates: Sequence[Candidate],
        alone: bool,
        stale: bool,
    ) -> list[BySetting]:
        """Compare candidates for this kind of slice; with new arguments if the present ones are `stale`."""

        def run(some: list[Candidate]) -> list[BySetting]:
            with self.bench(place) as bench:
                if stale:
                    bench.renew_inputs()
                return bench.compare_in(settings, some, hold=usable() if alone else None)

        finals = self._finals.get(_kind(place))
        return run(list(candidates)) if alone or finals is None else finals.paired_comparison(slice, candidates, run)

    @contextmanager
    def at_work(self) -> Iterator[Callable[[str], None]]:
        """While all slices are tuned at once, equal ones share comparisons. Yields a function to call when one ends."""
        kinds: dict[_Kind, list[str]] = {}
        for name, place in self._places.items():
            kinds.setdefault(_kind(place), []).append(name)
        self._finals = {kind: SharedFinals[BySetting](names) for kind, names in kinds.items()}
        try:
            yield lambda name: self._finals[_kind(self._places[name])].leave(name)
        finally:
            self._finals = {}

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold a core for this process's own computations, so that they do not disturb measurements.

        It takes long, so this is the first core, which others lock before they hold any further one.
        """
        if not any(place.device == CPU for place in self._places.values()):
            yield
            return
        with locked(lock_names(CPU, usable()[:1]), self._options.bounds.lock_seconds, self._options.locks):
            yield

    def log(self, place: CpuAffinity, since: int) -> list[tuple[Candidate, Outcome]]:
        """Measurements for this kind of slice, in order, after the first `since`."""
        with self._lock:
            return self._log.get(_kind(place), [])[since:]

    def start(self) -> None:
        """Start all workers; the first measurement reports errors. The first worker chooses the reference's plans."""
        if not self._all:
            return
        first, *others = self._all
        with suppress(Error):
            for bench in self._all:
                bench.begin_preparing()
            first.start()
        for bench in others:
            bench.plans = first.plans
        with ThreadPool(max(1, len(others))) as pool:
            for future in [pool.submit(bench.start) for bench in others]:
                with suppress(Error):
                    future.result()

    def interrupt(self) -> None:
        """End present measurements, and raise `KeyboardInterrupt` in every thread that measures from now on."""
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

    def _check_interrupt(self) -> None:
        if self.interrupted:
            raise KeyboardInterrupt

    def __exit__(self, *error: object) -> None:
        self.close()


def _kind(place: CpuAffinity) -> _Kind:
    return place.device, len(place.cores)
