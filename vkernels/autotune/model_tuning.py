"""Tune the tasks of a model for several slices: tasks that can save most of the model's time get most tuning time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from math import ceil, sqrt
from threading import Lock
from time import monotonic
from typing import TYPE_CHECKING, Any

from vkernels.compiler.arguments import CPU
from vkernels.inspect.task import Task
from vkernels.ir.errors import Error, OptionError
from vkernels.ir.system_resources import ThreadPool

from .benches import DEFAULT_OPTIONS, Benches, Counted, MakeBench
from .database.entry import PROGRAM
from .drive import Stop
from .measure import Bench, BenchOptions, Children
from .models import ModelTasks
from .plan_space import PlanSpace, enough_points
from .result import TuningResult
from .slice_names import is_here, place_of, slice_limits, usable
from .slices import Tune, at_once, read_meanwhile
from .tune import history_of, tune

if TYPE_CHECKING:
    from .database.database import Database

FIRST_PART = 0.5
"""Share of the time for the first turns of all tasks."""
SHORTEST = 4.0
"""Minimal seconds of a turn: reading a space and measuring the best plans take this long."""
PRIOR, FADING = 0.2, 0.5
"""Share of a task's time that its first turn is expected to save; and the ratio of the savings of successive turns."""

WORK = 2
"""Cores that slices use, per available core, so that none is idle while some tasks compile or wait."""
MAX_KEPT_POINTS = 400_000
"""Maximal number of points of spaces that are kept for later turns, some 500 bytes each."""


@dataclass(frozen=True)
class TaskTurn:
    """One turn of a task. `seconds`: wall time; `won`: saved seconds per run of the model, summed over the slices."""

    part: int
    seconds: float
    won: float


@dataclass(frozen=True)
class EndToEnd:
    """Runs of a model on one slice, in turns with the untuned model.

    `untuned`, `tuned`: seconds of a run, medians. `gain`: the median of their ratios; `low`, `high`: its 95 % interval.
    `taken_back`: parts whose plans did not pay; `tuned` is without them, unless these are all that were tuned.
    """

    untuned: float
    tuned: float
    gain: float
    low: float
    high: float
    rounds: int
    taken_back: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The comparison as a JSON object."""
        return {**asdict(self), "taken_back": list(self.taken_back)}


@dataclass(frozen=True)
class ModelResult:
    """The result for a model.

    `results`: by part and slice, for parts that had a turn. `failed`: why a part could not be tuned. `asked`,
    `measured`: numbers of candidates on all slices. `spent`: seconds of all workers, by activity. `end_to_end`: runs of
    the model itself by slice, see `model_turns`.
    """

    model: ModelTasks
    slices: tuple[str, ...]
    results: Mapping[int, Mapping[str, TuningResult]]
    failed: Mapping[int, str]
    turns: tuple[TaskTurn, ...]
    asked: int
    measured: int
    seconds: float
    spent: Mapping[str, float]
    end_to_end: Mapping[str, EndToEnd] = field(default_factory=dict)

    def before_and_after(self, slice: str) -> tuple[float, float]:
        """Seconds of a model run's calls on a slice, without and with tuning, summed over the measured parts."""
        before = after = 0.0
        for number, results in self.results.items():
            result = results.get(slice)
            if result is not None and result.best is not None and result.default is not None:
                calls = self.model.parts[number].calls
                before += calls * result.default.seconds
                after += calls * min(result.best.seconds, result.default.seconds)
        return before, after

    def to_json(self) -> dict[str, Any]:
        """The result as a JSON object."""
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
            "end_to_end": {name: end.to_json() for name, end in self.end_to_end.items()},
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
    """Tune a model's tasks for slices of this machine: all slices of a task at once, and `lanes` tasks at once.

    By default, there are as many lanes as keep the cores busy. Every task gets a turn, the heaviest first, longer for a
    larger share of the model's time; then the tasks with the largest expected savings get further turns. `seconds`:
    wall time; a turn that has begun ends a little later. `database`: keeps the results between turns, a temporary one
    by default. `evaluations`: instead of a time limit, every task gets one turn with so many on each slice. `more`:
    further arguments of `tune`. An interrupt ends all turns, and the results so far are returned. A task that cannot be
    tuned is reported, and the others go on.

    Raises `OptionError` for unknown or absent slices.
    """
    away = [name for name in slices if not is_here(name)]
    if away or not slices or len(set(slices)) != len(slices):
        raise OptionError(
            f"slices of a model are tuned by measuring: expected different ones of this machine, got "
            f"{', '.join(away or slices) or 'none'}"
        )
    count = max(1, min(enough_lanes(slices) if lanes is None else lanes, len(model.parts)))
    seconds_each = 2 * seconds * count / max(1, len(model.parts))
    of_each = Stop(seconds=seconds_each) if evaluations is None else Stop(evaluations)
    with Children() as children, _database(database) as kept:
        run = _Run(
            model, tuple(slices), options, kept, partial(tune, **more), make or partial(Bench, children=children),
            on_turn, seconds, count, clock, evaluations, enough_points(of_each),
        )  # fmt: skip
        with ThreadPool(count) as pool:
            futures = [pool.submit(run.lane, number) for number in range(count)]
            try:
                wait(futures, return_when="FIRST_EXCEPTION")
            except KeyboardInterrupt:
                run.interrupt()
            if any(future.done() and future.exception() is not None for future in futures):
                run.interrupt()
        for future in futures:
            future.result()
        return run.result()


def enough_lanes(slices: Sequence[str]) -> int:
    """Number of tasks that keep all cores busy; one if the slices of one task do, because memory is shared."""
    mine, places = len(usable()), [place_of(name) for name in slices]
    wanted = sum(len(place.cores) for place in places if place.device == CPU)
    return min(mine, ceil(WORK * mine / wanted)) if wanted else mine


@contextmanager
def _database(given: Database | None) -> Iterator[Database]:
    if given is not None:
        yield given
        return
    from .database.database import Database

    with (
        tempfile.TemporaryDirectory(prefix="vkernels-") as folder,
        Database.open(f"{folder}/turns.db", temporary=True) as temporary,
    ):
        yield temporary


@dataclass
class _Run:
    """Gives turns to tasks, in parallel lanes. `expected`: by part, the seconds that its next turn may save."""

    model: ModelTasks
    slices: tuple[str, ...]
    options: BenchOptions
    database: Database
    tune: Tune
    make: MakeBench
    on_turn: Callable[[TaskTurn], object]
    seconds: float
    lanes: int
    clock: Callable[[], float]
    evaluations: int | None
    most_points: int
    turns: list[TaskTurn] = field(default_factory=list)
    busy: set[int] = field(default_factory=set)
    results: dict[int, dict[str, TuningResult]] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)
    spent: dict[str, float] = field(default_factory=dict)
    counted: list[Counted] = field(default_factory=list)
    interrupted: bool = False

    def __post_init__(self) -> None:
        self.began = self.clock()
        self.expected = {number: PRIOR * part.seconds for number, part in enumerate(self.model.parts)}
        self._spaces: dict[int, dict[str, PlanSpace]] = {}
        self._active: list[Benches] = []
        self._lock = Lock()

    def lane(self, number: int) -> None:
        """Run turns until the time is over."""
        while not self.interrupted:
            with self._lock:
                chosen = self._next()
            if chosen is None:
                return
            part, stop = chosen
            try:
                self._turn(part, stop, number)
            except Error as error:  # other tasks go on
                with self._lock:
                    self.failed[part] = str(error)
                    self.busy.discard(part)
                    self.expected.pop(part, None)

    def interrupt(self) -> None:
        """End all turns."""
        self.interrupted = True
        with self._lock:
            for benches in self._active:
                benches.interrupt()

    def result(self) -> ModelResult:
        """The results so far."""
        return ModelResult(
            self.model, self.slices, self.results, self.failed, tuple(self.turns),
            sum(each.asked for each in self.counted), sum(each.measured for each in self.counted),
            self.clock() - self.began, self.spent,
        )  # fmt: skip

    def _next(self) -> tuple[int, Stop] | None:
        """A part and the limits of its turn; None if the time is over, or no task is left for another lane."""
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
        # The length is proportional to the root of a part's time: longer for heavy parts, but not too short for others.
        roots = [sqrt(max(each.seconds, 1e-9)) for each in self.model.parts]
        length = max(SHORTEST, FIRST_PART * self.seconds * self.lanes * roots[part] / sum(roots))
        return part, Stop(seconds=min(max(SHORTEST, left), length))

    def _turn(self, part: int, stop: Stop, lane: int) -> None:
        began = self.clock()
        task: Task = self.model.parts[part].task
        most = max(1, len(usable()) // self.lanes)
        with Benches(task, self.slices, self.options, self.make, lane * most, most) as benches:
            with self._lock:
                self._active.append(benches)
            try:
                spaces = self._read(part, benches)
                found = at_once(
                    benches,
                    lambda name: self.tune(
                        task, name, stop, bench=benches.on(name), database=self.database, space=spaces[name]
                    ),
                )
            finally:
                with self._lock:
                    self._active.remove(benches)
            self._note(part, found, benches, self.clock() - began)

    def _read(self, part: int, benches: Benches) -> dict[str, PlanSpace]:
        if part in self._spaces:
            return self._spaces[part]
        limits = {name: slice_limits(name) for name in self.slices}
        histories = {name: history_of(benches.task, name, self.database, PROGRAM) for name in self.slices}
        spaces = read_meanwhile(benches, limits, self.most_points, histories)
        kept = [space.sizes.after for each in [*self._spaces.values(), spaces] for space in each.values()]
        if sum(kept) <= MAX_KEPT_POINTS:
            self._spaces[part] = spaces
        return spaces

    def _note(self, part: int, found: Mapping[str, TuningResult], benches: Benches, seconds: float) -> None:
        calls = self.model.parts[part].calls
        with self._lock:
            before = self.results.get(part, {})
            saved = sum(calls * _saved(before.get(name), result) for name, result in found.items())
            # A later result knows the earlier one's trials, unless it was interrupted at the start.
            self.results[part] = {
                name: before[name] if name in before and result.best is None else result
                for name, result in found.items()
            }
            for what, spent in benches.spent.items():
                self.spent[what] = self.spent.get(what, 0.0) + spent
            self.counted.append(benches.counted)
            best = [result.best.seconds for result in self.results[part].values() if result.best is not None]
            turn = TaskTurn(part, seconds, saved)
            self.turns.append(turn)
            self.busy.discard(part)
            had = sum(each.part == part for each in self.turns)
            self.expected[part] = max(FADING * saved, PRIOR * calls * sum(best) * FADING ** (had + 2))
        self.on_turn(turn)


def _saved(before: TuningResult | None, now: TuningResult) -> float:
    """Seconds per call that a turn saved, compared with the best before it, or else with the default plan."""
    reference = now.default if before is None else before.best
    if reference is None or now.best is None:
        return 0.0
    return max(0.0, reference.seconds - now.best.seconds)
