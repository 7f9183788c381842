"""How fast a model's tasks are tuned for several slices at once, against one task on one slice after another.

    python benchmarks/model_tuning.py [FILE.py:FUNCTION] [--evaluations 8] [--tasks 24] [--slice …]… [--json FILE]

Each way tunes every task for every slice with as many evaluations, on an empty compile cache of its own, in which what
was compiled for one slice is found for the next. Ways are added up from the baseline:

- `one by one`: `tune` for each task and slice, one after another, each with a worker of its own;
- `workers kept`: the same, with workers that go from task to task;
- `shared`: slices of a task have compiles, references, measurements on as many cores and finals in common; still one
  worker at a time;
- `slices at once`: all slices of a task are at work at once, each on cores that nobody else measures on meanwhile;
- `tasks at once`: so do as many tasks as keep the cores at work, with fewer slices than these more than one: plans of
  one are read and compiled while another's are timed.

Those between the first and the last are tried on a part of the tasks, and compared with what the first took for these.
In the end the best plans of the first and the last way are timed in turns, on every slice.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from threading import RLock
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from vkernels.autotune.drive import Stop
from vkernels.autotune.measure import Bench, BenchOptions, Candidate, Children, Effort, Measurement, Outcome
from vkernels.autotune.model_tuning import tune_model
from vkernels.autotune.models import ModelTasks, read_model, tasks_of
from vkernels.autotune.result import TuningResult
from vkernels.autotune.slice_names import place_of
from vkernels.autotune.tune import tune
from vkernels.library.catalogue import CATALOGUE
from vkernels.torch import replace as put_library_kernels_in

MODEL = str(Path(__file__).parent / "model_of_tasks.py:captions")
SLICES = ["cpu:cores=1", "cpu:cores=2", "cpu:cores=1,l2=262144", "cpu:cores=1,registers=16"]
OPTIONS = BenchOptions(Effort(seconds=0.1))
FINALS = BenchOptions(Effort(seconds=0.5))
ALIKE = 0.02
"""Part of a time by which winners may differ and be as good: what decides between the plans of one search, twice."""
console = Console(highlight=False)

Place = tuple[int, str]
"""The number of a task and a slice."""
Best = Mapping[Place, Candidate]
Make = Callable[..., Bench]


@dataclass(frozen=True)
class Way:
    """One way to tune. `evaluations`: of all tasks on all slices, whether measured or shared; `measured`: by workers,
    finals left out; `spent`: seconds by what workers spent them on; `seconds`: of wall time, of each task where one
    came after the other."""

    name: str
    tasks: tuple[int, ...]
    seconds: float
    evaluations: int
    measured: int
    spent: Mapping[str, float]
    of_task: tuple[float, ...] = ()
    told_of_task: tuple[int, ...] = ()

    @property
    def rate(self) -> float:
        return self.evaluations / self.seconds

    @property
    def at_work(self) -> float:
        """Workers that compiled, compared or timed, in the mean."""
        return sum(seconds for what, seconds in self.spent.items() if what != "waiting") / self.seconds

    def times(self, first: Way) -> float:
        """The rate, over the first way's for the same tasks."""
        seconds = sum(first.of_task[first.tasks.index(number)] for number in self.tasks)
        told = sum(first.told_of_task[first.tasks.index(number)] for number in self.tasks)
        return self.rate / (told / seconds)


class OneAtATime(Bench):
    """A bench that waits until no other of its like is at work."""

    turn = RLock()

    def start(self) -> None:
        with self.turn:
            super().start()

    def measure(self, *arguments: Any, **named: Any) -> Outcome:
        with self.turn:
            return super().measure(*arguments, **named)

    def paired_comparison(self, *arguments: Any, **named: Any) -> list[Outcome]:
        with self.turn:
            return super().paired_comparison(*arguments, **named)


def one_by_one(
    name: str, model: ModelTasks, tasks: Sequence[int], slices: list[str], count: int, make: Make
) -> tuple[Way, Best]:  # fmt: skip
    """Every task on every slice, one after another."""
    best: dict[Place, Candidate] = {}
    spent, seconds, told, measured = dict[str, float](), list[float](), list[int](), 0
    began = perf_counter()
    for number in tasks:
        task, start, here = model.parts[number].task, perf_counter(), 0
        for slice in slices:
            with make(task, slice, OPTIONS) as bench:
                result = tune(task, slice, Stop(evaluations=count), bench=bench)
                _add(spent, bench.spent)
            here += _told(result)
            if result.best is not None:
                best[number, slice] = result.best.candidate
        seconds.append(perf_counter() - start)
        told.append(here)
        measured += here
    return Way(
        name, tuple(tasks), perf_counter() - began, sum(told), measured, spent, tuple(seconds), tuple(told)
    ), best  # fmt: skip


def at_once(
    name: str, model: ModelTasks, tasks: Sequence[int], slices: list[str], count: int, lanes: int | None,
    bench: type[Bench],
) -> tuple[Way, Best]:  # fmt: skip
    """All slices of a task together, and so many tasks."""
    some = replace(model, parts=tuple(model.parts[number] for number in tasks))
    with Children() as children:
        found = tune_model(
            some, slices, 1e9, OPTIONS, lanes=lanes, evaluations=count, make=partial(bench, children=children)
        )
    for part, why in found.failed.items():
        console.print(f"{some.parts[part].task}: {why}")
    results = {(tasks[part], slice): each for part, one in found.results.items() for slice, each in one.items()}
    told = sum(map(_told, results.values()))
    way = Way(name, tuple(tasks), found.seconds, told, found.measured, dict(found.spent))
    return way, {place: each.best.candidate for place, each in results.items() if each.best is not None}


def all_ways(
    model: ModelTasks, slices: list[str], count: int, part: int, lanes: int | None
) -> tuple[list[Way], Best, Best]:
    """The ways, and the winners of the first and the last."""
    every = range(len(model.parts))
    some = every[::part]
    ways: list[Way] = []

    def tried(way: tuple[Way, Best]) -> Best:
        ways.append(way[0])
        console.print(f"{way[0].name}: {way[0].seconds:.0f} s, {way[0].evaluations} evaluations", style="dim")
        return way[1]

    with own_cache():
        first = tried(one_by_one("one by one", model, every, slices, count, Bench))
    with own_cache(), Children() as children:
        tried(one_by_one("workers kept", model, some, slices, count, partial(Bench, children=children)))
    with own_cache():
        tried(at_once("shared", model, some, slices, count, 1, OneAtATime))
    with own_cache():
        tried(at_once("slices at once", model, some, slices, count, 1, Bench))
    with own_cache():
        last = tried(at_once("tasks at once", model, every, slices, count, lanes, Bench))
    return ways, first, last


@contextmanager
def own_cache() -> Iterator[None]:
    """An empty compile cache."""
    name, before = "XDG_CACHE_HOME", os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory() as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            os.environ.pop(name)
            if before is not None:
                os.environ[name] = before


@dataclass(frozen=True)
class Duel:
    """The winners of the first and the last way on a slice. `ratio`: the first's time over the last's; `low`, `high`:
    what it may be by their intervals; 1 for the same plan. `kernel`: for whom reads it."""

    kernel: str
    slice: str
    same: bool
    ratio: float = 1.0
    low: float = 1.0
    high: float = 1.0

    @property
    def word(self) -> str:
        if self.same:
            return "same"
        if self.low <= 1 + ALIKE and self.high >= 1 - ALIKE:
            return "within noise"
        return "faster" if self.ratio > 1 else "slower"


def duels(model: ModelTasks, first: Best, last: Best) -> list[Duel]:
    """The winners of both ways in turns; the same two on as many cores once. A slice that only one has is left out."""
    found: list[Duel] = []
    with Children() as children:
        for number, part in enumerate(model.parts):
            known: dict[object, Duel] = {}
            for place in [place for place in first if place[0] == number and place in last]:
                one, two, slice = first[place], last[place], place[1]
                kernel = part.task.name
                if one.key == two.key:
                    found.append(Duel(kernel, slice, True))
                    continue
                key = one.key, two.key, place_of(slice).cores
                if key not in known:
                    with Bench(part.task, slice, FINALS, children=children) as bench:
                        outcomes = bench.paired_comparison([one, two])
                    known[key] = _duel(kernel, slice, outcomes)
                found.append(replace(known[key], slice=slice))
    return found


def _duel(kernel: str, slice: str, outcomes: Sequence[Outcome]) -> Duel:
    one, two = outcomes
    if not isinstance(one, Measurement) or not isinstance(two, Measurement):
        return Duel(kernel, slice, False, 1.0 if one == two else float(isinstance(two, Measurement)) * 2)
    return Duel(kernel, slice, False, one.seconds / two.seconds, one.low / two.high, one.high / two.low)


def _told(result: TuningResult) -> int:
    return len(result.successes) + len(result.failures)


def _add(total: dict[str, float], more: Mapping[str, float]) -> None:
    for what, seconds in more.items():
        total[what] = total.get(what, 0.0) + seconds


def show_ways(ways: Sequence[Way]) -> None:
    table = Table("way", "tasks", "seconds", "told", "measured", "told/s", "× first", "× before")
    before = 1.0
    for way in ways:
        times = way.times(ways[0])
        numbers = len(way.tasks), f"{way.seconds:.0f}", way.evaluations, way.measured, f"{way.rate:.2f}"
        table.add_row(way.name, *map(str, numbers), f"{times:.2f}", f"{times / before:.2f}")
        before = times
    console.print(table)
    console.print("told: evaluations that searches were told of; measured: those that workers measured")
    for way in ways:
        spent = ", ".join(f"{what} {seconds:.0f}" for what, seconds in way.spent.items() if seconds >= 0.5)
        console.print(f"{way.name}: workers' seconds: {spent}; {way.at_work:.2f} of them at work in the mean")


def split(ways: Sequence[Way]) -> dict[str, float]:
    """What each thing is worth, as a factor; together the last way's gain over the first's."""
    times = [way.times(ways[0]) for way in ways]
    names = ("workers kept", "shared compiles and measurements", "parallel slices", "overlap of tasks")
    return {name: after / before for name, before, after in zip(names, times, times[1:], strict=False)}


def main(
    model: Annotated[str, typer.Argument()] = MODEL,
    evaluations: int = 8,
    tasks: int = 24,
    part: Annotated[int, typer.Option(help="one of so many tasks is tuned in the ways between first and last")] = 3,
    lanes: Annotated[int | None, typer.Option(help="tasks at once in the last way; as many as it takes itself")] = None,
    slices: Annotated[list[str], typer.Option("--slice")] = SLICES,
    json_file: Annotated[Path | None, typer.Option("--json")] = None,
) -> None:
    module, arguments, named = read_model(model)
    put_library_kernels_in(module, everywhere=True)
    found = tasks_of(module, arguments, named, CATALOGUE)
    found = replace(found, parts=found.parts[:tasks])
    ways, first, last = all_ways(found, slices, evaluations, part, lanes)
    show_ways(ways)
    gains = split(ways)
    console.print(
        f"{len(found.parts)} tasks, {len(slices)} slices: {ways[-1].times(ways[0]):.2f} times as many evaluations a "
        f"second: {' × '.join(f'{name} {gain:.2f}' for name, gain in gains.items())}"
    )
    in_turns = duels(found, first, last)
    ratios = [each.ratio for each in in_turns]
    words = ("same", "within noise", "faster", "slower")
    console.print(
        f"best plans of the last way beside the first's, in turns: "
        f"{', '.join(f'{sum(each.word == word for each in in_turns)} {word}' for word in words)}; "
        f"first's time over the last's: median {np.median(ratios):.3f}, geometric mean "
        f"{np.exp(np.mean(np.log(ratios))):.3f}, {min(ratios):.3f}–{max(ratios):.3f}"
    )
    for each in in_turns:
        if each.word in ("faster", "slower"):
            console.print(f"  {each.kernel} on {each.slice}: {each.ratio:.3f} ({each.low:.3f}–{each.high:.3f})")
    if json_file is not None:
        data = {
            "model": model, "slices": slices, "tasks": [str(each.task) for each in found.parts], "split": gains,
            "times": ways[-1].times(ways[0]), "ways": [asdict(way) for way in ways],
            "winners": [{**asdict(each), "word": each.word} for each in in_turns],
        }  # fmt: skip
        json_file.write_text(json.dumps(data, indent=1))


if __name__ == "__main__":
    typer.run(main)
