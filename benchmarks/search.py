"""How fast searches find good points: on recorded spaces, one device left out, beside kernel_tuner's strategies.

    python benchmarks/search.py [--repeats 30] [--seeds / --no-seeds] [--only forest,genetic_algorithm]
                                [--trials 100] [--cache FOLDER]

Each GPU's recorded space is searched as if it were new: without seeds, and with those that the other five GPUs give
(`best_of_neighbours`), which count as evaluations; with `--trials`, of so many points that tuning tried there. A score
is the optimum's time over that of the best point found so far, the mean of the GPUs; shown are its mean over the
repeats, which differ by the seed of chance, and the 95 % interval of that mean. Replays stop at the optimum.
kernel_tuner's strategies run in its own simulation mode where it is installed (`pip install 'vkernels[benchmarks]'`).
`--alone` searches each file by itself, without seeds: for spaces of one device. With `--cache`, finished parts are
kept, and not run again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Annotated

import numpy as np
import numpy.typing as npt
import typer
from rich.console import Console
from rich.table import Table
from scipy import stats

from vkernels.autotune.drive import Stop, drive
from vkernels.autotune.history import best_of_neighbours
from vkernels.autotune.recordings import RecordedSpace, read_recording
from vkernels.autotune.searches import DEFAULT_SEARCH, SEARCHES, Outcome
from vkernels.autotune.space import Point
from vkernels.ir.errors import FileError

DATA = Path(__file__).parents[2] / "shared" / "data" / "tuning_spaces"
MARKS = (25, 50, 100, 200)
TUNED_BEFORE = 99
"""The seed of chance of the searches on other devices."""
OURS = tuple(name for name in SEARCHES if name != "exhaustive")
Run = Callable[[int, Sequence[Point], Sequence[Mapping[Point, Outcome]]], list[float]]
"""Times of the points measured, in turn, in any unit, by the seed of chance, the points to begin with, and what points
took on other devices."""
console = Console(highlight=False, width=140)


def run_ours(
    recording: RecordedSpace, name: str, seed: int, seeds: Sequence[Point], elsewhere: Sequence[Mapping[Point, Outcome]]
) -> list[float]:
    """Seconds of the points that one of our searches measures, up to the optimum."""
    search = SEARCHES[name](recording.space, seed=seed, seeds=seeds, elsewhere=elsewhere)
    while len(search.told) < MARKS[-1] and (search.best is None or search.best.seconds > recording.optimum):
        if drive(search, recording.measure, Stop(evaluations=len(search.told) + 1)) == "space":
            break
    return [told.seconds for told in search.told]


def tried(recording: RecordedSpace, count: int) -> Mapping[Point, Outcome]:
    """What tuning with so many evaluations, without seeds, leaves in a database; all that is recorded for 0."""
    if not count:
        return recording.outcomes
    search = SEARCHES[DEFAULT_SEARCH](recording.space, seed=TUNED_BEFORE)
    drive(search, recording.measure, Stop(evaluations=count))
    return {each.point: each.outcome for each in search.told}


def scores(times: Sequence[float], optimum: float) -> list[float]:
    """At each mark, the optimum over the best of the times until then; a run that ended found no more."""
    best = np.minimum.accumulate([*times, *[np.inf] * (MARKS[-1] - len(times))])
    return [float(optimum / best[mark - 1]) for mark in MARKS]


def _ours(name: str, recording: RecordedSpace) -> Run:
    return partial(run_ours, recording, name)


def contestants(only: str) -> dict[str, Callable[[RecordedSpace], Run]]:
    """By name, what makes a run on a recording: our searches, then kernel_tuner's."""
    found: dict[str, Callable[[RecordedSpace], Run]] = {}
    for name in OURS:
        found[name] = partial(_ours, name)
    if find_spec("kernel_tuner") is None:
        console.print("kernel_tuner is not installed: its strategies are left out")
    else:
        from search_theirs import STRATEGIES, Theirs

        for name in STRATEGIES:

            def make(recording: RecordedSpace, name: str = name) -> Run:
                theirs = Theirs(recording)
                return lambda seed, seeds, _: [1e-3 * ms for ms in theirs.run(name, MARKS[-1], seed, seeds)]

            found[f"kernel_tuner {name}"] = make
    wanted = [part for part in only.split(",") if part]
    return {name: make for name, make in found.items() if not wanted or name.split()[-1] in wanted}


def measured(
    make: Callable[[RecordedSpace], Run], recording: RecordedSpace, elsewhere: Sequence[Mapping[Point, Outcome]],
    repeats: int,
) -> list[list[float]]:  # fmt: skip
    """The score at each mark, by repeat. `elsewhere`: outcomes on other devices, whose best are the seeds."""
    run, seeds = make(recording), best_of_neighbours(recording.space, elsewhere)
    return [scores(run(seed, seeds, elsewhere), recording.optimum) for seed in range(repeats)]


def mean_with_interval(found: npt.ArrayLike) -> list[tuple[float, float, float]]:
    """The mean at each mark and the ends of its 95 % interval; `found`: by repeat and mark. One repeat has no interval.

    Student's distribution of the mean: scores of repeats are independent, and those of a mark have one distribution.
    """
    values = np.asarray(found, np.float64)
    means, repeats = values.mean(0), len(values)
    if repeats < 2:
        return [(float(mean), float("nan"), float("nan")) for mean in means]
    reach = stats.t.ppf(0.975, repeats - 1) * values.std(0, ddof=1) / np.sqrt(repeats)
    return [(float(mean), float(mean - r), float(mean + r)) for mean, r in zip(means, reach, strict=True)]


def cached(folder: Path | None, key: str, compute: Callable[[], list[list[float]]]) -> list[list[float]]:
    """What `compute` gives, kept in a file of `folder`."""
    if folder is None:
        return compute()
    path = folder / f"{key.replace(' ', '-')}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(compute()))
    found: list[list[float]] = json.loads(path.read_text())
    return found


def show(title: str, rows: dict[str, list[list[list[float]]]], names: Sequence[str]) -> None:
    """Print the means of the recordings at each mark, and each recording's by the default search, with intervals.

    `rows`: by search, the scores by recording, repeat and mark.
    """
    table = Table("search", *[str(mark) for mark in MARKS], title=title)
    for label, found in sorted(rows.items(), key=lambda row: -float(np.mean(row[1]))):
        table.add_row(label, *_shown(np.mean(found, 0)))
    console.print(table)
    for name, found_here in zip(names, rows.get(DEFAULT_SEARCH, []), strict=False):
        console.print(f"{DEFAULT_SEARCH} on {name}: {'  '.join(_shown(found_here))}")


def _shown(found: npt.ArrayLike) -> list[str]:
    return [f"{mean:.3f} ({low:.3f}–{high:.3f})" for mean, low, high in mean_with_interval(found)]


def main(
    repeats: Annotated[int, typer.Option(help="runs by each search on each recording", min=1)] = 30,
    only: Annotated[str, typer.Option(help="searches and strategies, by comma; all unless told")] = "",
    seeds: Annotated[bool, typer.Option(help="with seeds from the other recordings, too")] = True,
    alone: Annotated[bool, typer.Option(help="each recording by itself, without seeds")] = False,
    files: Annotated[str, typer.Option(help="pattern of the recordings' names")] = "convolution-*.json.gz",
    data: Annotated[Path, typer.Option(help="folder of recordings")] = DATA,
    trials: Annotated[int, typer.Option(help="points that the others know, as a search found them; 0: all")] = 0,
    cache: Annotated[Path | None, typer.Option(help="folder for what is finished")] = None,
) -> None:
    """Compare searches on recorded spaces."""
    try:
        recordings = [read_recording(path) for path in sorted(data.glob(files))]
    except FileError as error:
        console.print(str(error), markup=False)
        sys.exit(1)
    if not recordings:
        console.print(f"no recordings in {data}: nothing to search", markup=False)
        return
    known = {recording.name: tried(recording, trials) if seeds else {} for recording in recordings}
    names = [recording.name.removeprefix("convolution-") for recording in recordings]
    for seeded in (False, True) if seeds and not alone and len(recordings) > 1 else (False,):
        rows: dict[str, list[list[list[float]]]] = {}
        for label, make in contestants(only).items():
            began = process_time()
            rows[label] = []
            for recording in recordings:
                others = [known[other.name] for other in recordings if seeded and other is not recording]
                key = f"{label} {recording.name} {f'seeded {trials}' if seeded else 'alone'} each of {repeats}"
                rows[label].append(
                    cached(
                        cache,
                        key,
                        partial(measured, make, recording, others, repeats),
                    )
                )
            console.print(f"[dim]{label}: {process_time() - began:.0f} s[/dim]")
        show("Seeds of the other recordings" if seeded else "No seeds", rows, names)


if __name__ == "__main__":
    typer.run(main)
