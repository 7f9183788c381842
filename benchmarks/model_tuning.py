"""How fast a model's tasks are tuned for several slices at once, against one task on one slice after another.

    python benchmarks/model_tuning.py FILE.py:FUNCTION [--evaluations 8] [--tasks 20] [--slice …]…

Each way tunes every task for every slice with as many evaluations, on an empty compile cache of its own. Ways are added
up from the baseline: `one by one` starts a worker for each task and slice; `workers kept` gives them from task to task;
`slices at once` tunes a task for all its slices together, so that what is measured on as many cores is shared;
`tasks at once` does so with several tasks. Last, the best plans of the first and the last way are timed in turns.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from vkernels.autotune.drive import Stop
from vkernels.autotune.measure import Bench, Candidate, Children, Effort, Measured, Options
from vkernels.autotune.model_tuning import tune_model
from vkernels.autotune.models import ModelTasks, read_model, tasks_of
from vkernels.autotune.tune import tune

SLICES = ["cpu:cores=1", "cpu:cores=2", "cpu:cores=1,l2=262144", "cpu:cores=1,registers=16"]
EFFORT = Effort(seconds=0.1)
console = Console(highlight=False)

Best = Mapping[tuple[int, str], Candidate]
Make = Callable[..., Bench]


@dataclass(frozen=True)
class Way:
    """One way to tune. `evaluations`: of all tasks on all slices, whether measured or shared; `spent`: by workers."""

    name: str
    seconds: float
    evaluations: int
    spent: Mapping[str, float]

    @property
    def rate(self) -> float:
        return self.evaluations / self.seconds


def one_by_one(model: ModelTasks, slices: list[str], count: int, make: Make) -> tuple[Best, int, dict[str, float]]:
    best: dict[tuple[int, str], Candidate] = {}
    told, spent = 0, dict[str, float]()
    for number, part in enumerate(model.parts):
        for name in slices:
            with make(part.task, name, Options(EFFORT)) as bench:
                result = tune(part.task, name, Stop(evaluations=count), bench=bench)
                for what, seconds in bench.spent.items():
                    spent[what] = spent.get(what, 0.0) + seconds
            told += len(result.successes) + len(result.failures)
            if result.best is not None:
                best[number, name] = result.best.candidate
    return best, told, spent


def at_once(model: ModelTasks, slices: list[str], count: int, lanes: int) -> tuple[Best, int, dict[str, float]]:
    found = tune_model(model, slices, 1e9, Options(EFFORT), lanes=lanes, evaluations=count)
    results = {(number, name): each for number, one in found.results.items() for name, each in one.items()}
    told = sum(len(each.successes) + len(each.failures) for each in results.values())
    return {k: e.best.candidate for k, e in results.items() if e.best is not None}, told, dict(found.spent)


def timed(name: str, work: Callable[[], tuple[Best, int, dict[str, float]]]) -> tuple[Way, Best]:
    """On an empty compile cache."""
    with tempfile.TemporaryDirectory() as folder:
        before = os.environ.get("XDG_CACHE_HOME")
        os.environ["XDG_CACHE_HOME"] = folder
        try:
            start = perf_counter()
            best, told, spent = work()
            return Way(name, perf_counter() - start, told, spent), best
        finally:
            os.environ.pop("XDG_CACHE_HOME")
            if before is not None:
                os.environ["XDG_CACHE_HOME"] = before


def in_turns(model: ModelTasks, first: Best, last: Best) -> list[float]:
    """Times of the first way's best plan over the last one's, by task and slice."""
    ratios = []
    for (number, name), candidate in first.items():
        other = last.get((number, name))
        if other is None or other == candidate:
            ratios.append(1.0 if other is not None else 0.0)
            continue
        options = Options(replace(EFFORT, seconds=0.5))
        with Bench(model.parts[number].task, name, options) as bench:
            one, two = bench.duel([candidate, other])
        if isinstance(one, Measured) and isinstance(two, Measured):
            ratios.append(one.seconds / two.seconds)
    return ratios


def main(
    model: str,
    evaluations: int = 8,
    tasks: int = 20,
    slices: Annotated[list[str], typer.Option("--slice")] = SLICES,
    json_file: Annotated[Path | None, typer.Option("--json")] = None,
) -> None:
    found = tasks_of(*read_model(model))
    found = replace(found, parts=found.parts[:tasks])
    with Children() as children:
        kept = partial(Bench, children=children)
        ways = [
            timed("one by one", lambda: one_by_one(found, slices, evaluations, Bench)),
            timed("workers kept", lambda: one_by_one(found, slices, evaluations, kept)),
            timed("slices at once", lambda: at_once(found, slices, evaluations, 1)),
            timed("tasks at once", lambda: at_once(found, slices, evaluations, 2)),
        ]
    table = Table("way", "seconds", "evaluations", "a second", "× first", "workers' seconds")
    for way, _ in ways:
        spent = ", ".join(f"{what} {seconds:.0f}" for what, seconds in way.spent.items() if what)
        times = f"{way.rate / ways[0][0].rate:.2f}"
        table.add_row(way.name, f"{way.seconds:.0f}", str(way.evaluations), f"{way.rate:.2f}", times, spent)
    console.print(table)
    ratios = in_turns(found, ways[0][1], ways[-1][1])
    lower, middle, upper = np.quantile(ratios, [0, 0.5, 1])
    console.print(
        f"{len(found.parts)} tasks, {len(slices)} slices; best plans of the first way over the last's: "
        f"{middle:.3f} ({lower:.3f}–{upper:.3f})"
    )
    if json_file is not None:
        json_file.write_text(json.dumps({"ways": [asdict(way) for way, _ in ways], "ratios": ratios}, indent=1))


if __name__ == "__main__":
    typer.run(main)
