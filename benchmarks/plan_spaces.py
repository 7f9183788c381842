"""How near searches come to the best plan of a kernel's whole space, replayed on what was measured of all its plans.

    vk tune stencil_square --slice cores=1 --search exhaustive --budget 100000 --db FILE
    python benchmarks/plan_spaces.py stencil_square --slice cpu:cores=1 --db FILE [--repeats 15]

A number is the best plan's time over that of the best that a search found after so many plans: median of the repeats,
and the worst. Each begins with the space's own seeds. Times are single measurements, so that the best plan's is a
little too good.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from vkernels.autotune.database import Database
from vkernels.autotune.history import History
from vkernels.autotune.measure import Measurement
from vkernels.autotune.plan_space import PlannedSpace, PlanSpace, read
from vkernels.autotune.searches import SEARCHES, FailedPoint, Outcome
from vkernels.autotune.slice_names import slice_limits, slice_target
from vkernels.autotune.space import Point
from vkernels.library.tasks import library_tasks

COUNTS = (20, 40, 60, 100, 150)


def recorded(kernel: str, slice: str, path: Path) -> tuple[PlanSpace, dict[Point, Outcome]]:
    """A kernel's space, and the outcomes of those of its points that were measured."""
    task = next(task for task in library_tasks([kernel]) if task.name == kernel)
    space = read(task, slice_limits(slice))
    with Database.open(str(path), read_only=True) as database:
        known = History(database, task, space.limits, slice_target(slice), slice).before(space)
    outcomes = {
        each.point: each.outcome.seconds
        if isinstance(each.outcome, Measurement)
        else FailedPoint(str(each.outcome.reason))
        for each in known
    }
    return space, outcomes


def found(space: PlanSpace, outcomes: Mapping[Point, Outcome], name: str, seed: int) -> list[float]:
    """The least seconds that a search found after each number of plans."""
    values = dict(zip(space.space.names, space.space.values, strict=True))
    known = PlannedSpace(values, {point: space.seconds(point) for point in space.space if point in outcomes})
    search = SEARCHES[name](known, seed=seed, seeds=space.seeds)
    least: list[float] = []
    for _ in range(max(COUNTS)):
        if (point := search.ask()) is not None:
            search.tell(point, outcomes[point])
        least.append(search.best.seconds if search.best else float("inf"))
    return [least[count - 1] for count in COUNTS]


def main(
    kernels: list[str], db: Annotated[Path, typer.Option()], slice_: Annotated[str, typer.Option("--slice")] = "cpu",
    repeats: int = 15,
) -> None:  # fmt: skip
    console = Console(highlight=False)
    for kernel in kernels:
        space, outcomes = recorded(kernel, slice_, db)
        times = [outcome for outcome in outcomes.values() if isinstance(outcome, float)]
        best, default = min(times), outcomes.get(space.default)
        share = f"{best / default:.2f}" if isinstance(default, float) else "unknown"
        title = f"{kernel}: {len(outcomes)} of {space.sizes.after} plans measured; the default plan {share} of the best"
        table = Table("search", *(str(count) for count in COUNTS), title=title)
        for name in SEARCHES:
            runs = [found(space, outcomes, name, seed) for seed in range(repeats)]
            parts = [[best / seconds for seconds in column] for column in zip(*runs, strict=True)]
            table.add_row(name, *(f"{median(each):.2f} ({min(each):.2f})" for each in parts))
        console.print(table)


if __name__ == "__main__":
    typer.run(main)
