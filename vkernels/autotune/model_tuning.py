"""Tunes the tasks of a model for several slices: the time goes where most of the model's own time can be won."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from math import ceil, sqrt
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from vkernels.compiler.arguments import CPU
from vkernels.inspect.task import Task
from vkernels.ir.errors import Error, OptionError
from vkernels.ir.system_resources import ThreadPool

from .benches import DEFAULT_OPTIONS, Benches, MakeBench
from .drive import Stop
from .limits import slice_limits
from .measure import Bench, BenchOptions, Children
from .measure.cpu_affinity import is_here, place_of, usable
from .models import ModelTasks
from .plan_space import MAX_POINTS, PlanSpace, enough_points
from .result import TuningResult
from .slices import Tune, at_once, read_meanwhile
from .tune import tune

if TYPE_CHECKING:
    from .database.database import Database

FIRST_PART = 0.5
"""Of the time that goes to the first turns: of every task, as far as it reaches."""
SHORTEST = 4.0
"""Seconds of a turn, at least: reading a space and measuring the plans that are modelled best take so long."""
PRIOR, FADING = 0.2, 0.5
"""Part of a task's time that its first turn is expected to win; and what of the last turn's win the next one is."""

WORK = 2
"""Cores that slices want, for each that there is, so that none is idle while some compile and others wait."""
MAX_KEPT_POINTS = 400_000
"""Points of spaces that are kept for later turns, of all tasks together: some 500 bytes each."""


@dataclass(frozen=True)
class TaskTurn:
    """One turn of a task. `seconds`: of wall time; `won`: seconds of a run of the model, on all slices together."""

    part: int
    seconds: float
    won: float


@dataclass(frozen=True)
class ModelResult:
    """`results`: by part and slice, what was found, of those parts that had a turn. `failed`: why a part could not be
    tuned. `asked`, `measured`: candidates, of all slices together. `spent`: seconds of all workers, by what for."""

    model: ModelTasks
    slices: tuple[str, ...]
    results: Mapping[int, Mapping[str, TuningResult]]
    failed: Mapping[int, str]
    turns: tuple[TaskTurn, ...]
    asked: int
    measured: int
    seconds: float
    spent: Mapping[str, float]

    def before_and_after(self, slice: str) -> tuple[float, float]:
        """Seconds that the calls of a run of the model take on a slice by the plans that they have without tuning, and
        by those that were found: of the parts that were measured there."""
        before = after = 0.0
        for number, results in self.results.items():
            result = results.get(slice)
            if result is not None and result.best is not None and result.default is not None:
                calls = self.model.parts[number].calls
                before += calls * result.default.seconds
                after += calls * min(result.best.seconds, result.default.seconds)
        return before, after

    def to_json(self) -> dict[str, Any]:
        """As what JSON can hold."""
        return {
            "slices": [
                {"slice": name, "before": before, "after": after}
                for name in self.slices
                for before, after in [self.before_and_after(name)]
            ],
            "parts": [
                {
                    "task": part.task.to_json(), "calls": part.calls, "seconds": part.seconds,
                    "results": {name: result.to_json() for name, result in self.results.get(number, {}).items()},
                    "failed": self.failed.get(number),
                }
                for number, part in enumerate(self.model.parts)
            ],
            "left_out": dict(self.model.left_out),
            "covered": self.model.covered,
            "turns": [{"part": turn.part, "seconds": turn.seconds, "won": turn.won} for turn in self.turns],
            "asked": self.asked,
            "measured": self.measured,
            "seconds": self.seconds,
            "spent": dict(self.spent),
        }  # fmt: skip


def tune_model(
    model: ModelTasks,
    slices: Sequence[str],
    seconds: float,
    options: BenchOptions = DEFAULT_OPTIONS,
    database: Database | None = None,
    lanes: int | None = None,
    evaluations: int | None = None,
    tune: Tune = tune,
    make: MakeBench | None = None,
    on_turn: Callable[[TaskTurn], object] = lambda turn: None,
    clock: Callable[[], float] = monotonic,
    **more: Any,
) -> ModelResult:
    """Tune a model's tasks for slices of this machine, all slices of a task at once, `lanes` tasks at once: unless
    given, as many as keep the cores at work.

    Every task has a turn, longer the more of the model's time it takes, the heaviest first; then those have more turns
    of which most is expected. `seconds`: of wall time; a turn that has begun ends a little later. `database`: what
    turns before, and earlier tuning, found; a temporary one unless given. `evaluations`: every task has one turn, of so
    many on each slice, in place of seconds. `more`: what `tune` takes beside.
    An interrupt ends all; what was found is returned. A task that cannot be tuned is told of, and the others go on.

    Raises `OptionError` for slices that there are not, or are not here.
    """
    away = [name for name in slices if not is_here(name)]
    if away or not slices or len(set(slices)) != len(slices):
        raise OptionError(
            f"slices of a model are tuned by measuring: expected different ones of this machine, got "
            f"{', '.join(away or slices) or 'none'}"
        )
    count = max(1, min(enough_lanes(slices) if lanes is None else lanes, len(model.parts)))
    with Children() as children, _of_the_run(database) as kept:
        work = _Work(
            model, tuple(slices), options, kept, partial(tune, **more),
            make or partial(Bench, children=children), on_turn, _Share(model, seconds, count, clock, evaluations),
            enough_points(_of_each(model, seconds, count, evaluations)) if database is None else MAX_POINTS,
        )  # fmt: skip
        began = clock()
        with ThreadPool(count) as pool:
            futures = [pool.submit(work.lane, number) for number in range(count)]
            try:
                wait(futures, return_when="FIRST_EXCEPTION")
            except KeyboardInterrupt:
                work.interrupt()
            if any(future.done() and future.exception() is not None for future in futures):
                work.interrupt()
        for future in futures:
            future.result()
        return work.result(clock() - began)


def enough_lanes(slices: Sequence[str]) -> int:
    """Tasks at once that keep all cores at work: none beside another where the slices of one do, since tasks that are
    timed at once disturb each other's memory."""
    mine, places = len(usable()), [place_of(name) for name in slices]
    wanted = sum(len(place.cores) for place in places if place.device == CPU)
    return min(mine, ceil(WORK * mine / wanted)) if wanted else mine


def _of_each(model: ModelTasks, seconds: float, lanes: int, evaluations: int | None) -> Stop:
    """What a task may expect in all its turns: of time, twice its part."""
    if evaluations is not None:
        return Stop(evaluations=evaluations)
    return Stop(seconds=2 * seconds * lanes / max(1, len(model.parts)))


@contextmanager
def _of_the_run(database: Database | None) -> Iterator[Database]:
    """The database that is given, else one as long as the run takes."""
    if database is not None:
        yield database
        return
    from .database.database import Database

    with (
        tempfile.TemporaryDirectory(prefix="vkernels-") as folder,
        Database.open(f"{folder}/turns.db", passing=True) as passing,
    ):
        yield passing


@dataclass
class _Share:
    """Who has the next turn, and for how long."""

    model: ModelTasks
    seconds: float
    lanes: int
    clock: Callable[[], float] = monotonic
    evaluations: int | None = None
    began: float = 0.0
    turns: list[TaskTurn] = field(default_factory=list)
    expected: dict[int, float] = field(default_factory=dict)
    busy: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.began = self.clock()
        self.expected = {number: PRIOR * part.seconds for number, part in enumerate(self.model.parts)}

    def next(self) -> tuple[int, Stop] | None:
        """A part and when its turn ends; None where time is over, or nothing is left for another lane."""
        left = self.seconds - (self.clock() - self.began)
        idle = [number for number in self.expected if number not in self.busy]
        if left <= 0 or not idle:
            return None
        had = {turn.part for turn in self.turns}
        new = [number for number in idle if number not in had]
        if self.evaluations is not None and not new:
            return None
        part = max(new or idle, key=lambda number: self.expected[number])
        self.busy.add(part)
        if self.evaluations is not None:
            return part, Stop(evaluations=self.evaluations)
        return part, Stop(seconds=min(max(SHORTEST, left), self._length(part)))

    def done(self, turn: TaskTurn, weight: float) -> None:
        """After a turn; `weight`: seconds that the part takes of the model now."""
        self.busy.discard(turn.part)
        self.turns.append(turn)
        had = sum(each.part == turn.part for each in self.turns)
        self.expected[turn.part] = max(FADING * turn.won, PRIOR * weight * FADING ** (had + 2))

    def drop(self, part: int) -> None:
        """A part that cannot be tuned has no more turns."""
        self.busy.discard(part)
        self.expected.pop(part, None)

    def _length(self, part: int) -> float:
        """By the root of the part's time: the heavy ones longer, but not so that the light ones have nothing."""
        roots = [sqrt(max(each.seconds, 1e-9)) for each in self.model.parts]
        return max(SHORTEST, FIRST_PART * self.seconds * self.lanes * roots[part] / sum(roots))


class _Work:
    """What the lanes do together."""

    def __init__(
        self, model: ModelTasks, slices: tuple[str, ...], options: BenchOptions, database: Database, tune: Tune,
        make: MakeBench, on_turn: Callable[[TaskTurn], object], share: _Share, most_points: int,
    ):  # fmt: skip
        self.model, self.slices, self.options, self.database = model, slices, options, database
        self.tune, self.make, self.on_turn, self.share = tune, make, on_turn, share
        self.most_points = most_points
        self.results: dict[int, dict[str, TuningResult]] = {}
        self.failed: dict[int, str] = {}
        self.spent: dict[str, float] = {}
        self.asked = self.measured = 0
        self._read: dict[int, dict[str, PlanSpace]] = {}
        self._at_work: list[Benches] = []
        self._interrupted = False
        self._lock = Lock()

    def lane(self, number: int) -> None:
        """Turn after turn, until there is no time."""
        while not self._interrupted:
            with self._lock:
                chosen = self.share.next()
            if chosen is None:
                return
            part, stop = chosen
            try:
                self._turn(part, stop, number)
            except Error as error:  # of this task: others may do
                self._drop(part, error)

    def interrupt(self) -> None:
        """End all turns; nobody begins another."""
        self._interrupted = True
        with self._lock:
            for benches in self._at_work:
                benches.interrupt()

    def result(self, seconds: float) -> ModelResult:
        """What was found."""
        return ModelResult(
            self.model, self.slices, self.results, self.failed, tuple(self.share.turns), self.asked, self.measured,
            seconds, self.spent,
        )  # fmt: skip

    def _turn(self, part: int, stop: Stop, lane: int) -> None:
        began = self.share.clock()
        task: Task = self.model.parts[part].task
        most = max(1, len(usable()) // self.share.lanes)
        with Benches(task, self.slices, self.options, self.make, lane * most, most) as benches:
            with self._lock:
                self._at_work.append(benches)
            try:
                spaces = self._spaces(part, benches)
                found = at_once(
                    benches,
                    lambda name: self.tune(
                        task, name, stop, bench=benches.on(name), database=self.database, space=spaces[name]
                    ),
                )
            finally:
                with self._lock:
                    self._at_work.remove(benches)
            self._note(part, found, benches, self.share.clock() - began)

    def _spaces(self, part: int, benches: Benches) -> dict[str, PlanSpace]:
        """The space of each slice; those of few points are kept for the part's next turn."""
        if part in self._read:
            return self._read[part]
        spaces = read_meanwhile(benches, {name: slice_limits(name) for name in self.slices}, self.most_points)
        if (
            sum(space.sizes.after for each in [*self._read.values(), spaces] for space in each.values())
            <= MAX_KEPT_POINTS
        ):
            self._read[part] = spaces
        return spaces

    def _note(self, part: int, found: Mapping[str, TuningResult], benches: Benches, seconds: float) -> None:
        calls = self.model.parts[part].calls
        with self._lock:
            before = self.results.get(part, {})
            won = sum(calls * _won(before.get(name), result) for name, result in found.items())
            self.results[part] = {name: _better(before.get(name), result) for name, result in found.items()}
            for what, spent in benches.spent.items():
                self.spent[what] = self.spent.get(what, 0.0) + spent
            self.asked += benches.counted.asked
            self.measured += benches.counted.measured
            turn = TaskTurn(part, seconds, won)
            best = [result.best.seconds for result in self.results[part].values() if result.best is not None]
            self.share.done(turn, calls * sum(best))
        self.on_turn(turn)

    def _drop(self, part: int, error: Error) -> None:
        with self._lock:
            self.failed[part] = str(error)
            self.share.drop(part)


def _won(before: TuningResult | None, now: TuningResult) -> float:
    """Seconds a call that a turn won, against the best before it, or against the default plan."""
    reference = now.default if before is None else before.best
    if reference is None or now.best is None:
        return 0.0
    return max(0.0, reference.seconds - now.best.seconds)


def _better(before: TuningResult | None, now: TuningResult) -> TuningResult:
    """The later one, which knows of the earlier one's trials, unless it was interrupted before it found anything."""
    return before if before is not None and now.best is None else now
