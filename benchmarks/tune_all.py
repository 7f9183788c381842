"""How near a minute of tuning comes to the best plan of every library kernel, and whether it is ever slower than none.

    python benchmarks/tune_all.py run FILE.jsonl [--kernels all] [--budget 60] [--long 600] [--only-tune]
                                      [--known EARLIER.jsonl]…
    python benchmarks/tune_all.py show FILE.jsonl

Each kernel is tuned as `vk tune` does it, with an empty database and an empty code cache. Then the best plan is looked
for without that result: in the whole space where that has few plans, else by a longer search with another seed; what
earlier files found is known as well (--known), and enough where there is to be no other search (--only-tune). Last,
the default plan, the minute's, and the others' fastest are timed in turns, in a new process on other arguments, and on
others again after some turns; which of them is the best is decided by the first third of the turns, and the parts of it
by the rest.

A kernel is a child process that has a time limit, and one line of the file, with the reason where it fails. The command
goes on where the file ends, so that it may take many sittings.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from time import monotonic, time
from typing import Annotated, Any

import typer
from rich.console import Console

sys.path.insert(0, str(Path(__file__).parent))

from common import Machine
from tune_all_judge import DEFAULT, TUNED, Record, judged, records_in, summary, table

from vkernels.autotune.database import Database
from vkernels.autotune.drive import Stop, effort_of
from vkernels.autotune.measure import Bench, BenchOptions, Candidate, Effort, Measurement
from vkernels.autotune.measure.measures import candidate_from_json, candidate_to_json
from vkernels.autotune.result import Success, TuningResult
from vkernels.autotune.searches import DEFAULT_SEARCH
from vkernels.autotune.tune import tune
from vkernels.inspect.task import Task
from vkernels.library.tasks import library_tasks
from vkernels.targets.host_cpu import usable_cores

FEW = 1500
"""Plans of a space that are all tried."""
RUNNERS_UP = 3
"""Of the longer search's fastest plans, those that are timed beside its best."""
TURN = Effort(seconds=0.1)
"""Of each plan in each turn."""
TURNS_IN_A_PLACE = 5
"""Turns on the same arguments: some plans owe a part of their speed to where in memory these happen to lie."""
TUNING_SEED, OTHER_SEED, ARGUMENTS_SEED = 0, 1, 7
MORE_SECONDS = 240.0
"""That a child may take beside its budgets: workers, spaces, and the turns."""

app = typer.Typer(add_completion=False)
console = Console(highlight=False)


def tuned(task: Task, slice: str, stop: Stop, search: str, seed: int, path: Path | None) -> tuple[TuningResult, Record]:
    """A result, and what came of it and of its seconds. `path`: of the database, None for none."""
    database = None if path is None else Database.open(str(path))
    with Bench(task, slice, BenchOptions(effort_of(stop))) as bench:
        result = tune(task, slice, stop, search, seed, bench, database)
    found = {
        "seconds": result.seconds, "tried": len(result.successes) + len(result.failures), "reasons": result.reasons,
        "stopped": result.stopped, "spent": bench.spent, "restarts": bench.restarts,
        "best": None if result.best is None else _named(result.best),
    }  # fmt: skip
    return result, found


def in_turns(task: Task, slice: str, candidates: dict[str, Candidate], turns: int) -> dict[str, list[float]]:
    """Seconds of each candidate in each turn; those that had no time in some turn are left out."""
    found = []
    with Bench(task, slice, BenchOptions(TURN, seed=ARGUMENTS_SEED)) as bench:
        for turn in range(turns):
            if turn and turn % TURNS_IN_A_PLACE == 0:
                bench.renew_inputs()
            found.append(bench.paired_comparison(list(candidates.values())))
    by_name = zip(candidates, zip(*found, strict=True), strict=True)
    return {
        name: [each.seconds for each in outcomes if isinstance(each, Measurement)]
        for name, outcomes in by_name
        if all(isinstance(each, Measurement) for each in outcomes)
    }


def compared(
    task: Task, slice: str, budget: float, long: float | None, few: int, turns: int, folder: Path,
    known: Sequence[Candidate] = (),
) -> Record:  # fmt: skip
    """A kernel's record. `long`: seconds of the other search, None for none; at most twice as many for a whole space.
    `known`: plans to be timed as well. Raises `RuntimeError` where there is nothing to compare."""
    result, first = tuned(task, slice, Stop(seconds=budget), DEFAULT_SEARCH, TUNING_SEED, folder / "tuned.sqlite")
    if result.best is None or result.default is None:
        raise RuntimeError(f"no plan has a time: {result.reasons}")
    named = {TUNED: result.best.candidate, DEFAULT: result.default.candidate}
    named |= {f"known {number}": each for number, each in enumerate(known)}
    other: Record | None = None
    if long is not None:
        whole = result.counts.after <= few
        stop = Stop(seconds=2 * long if whole else long)
        search = "exhaustive" if whole else DEFAULT_SEARCH
        longer, other = tuned(task, slice, stop, search, OTHER_SEED, None)
        others = sorted(longer.successes, key=lambda each: each.measured.high)[:RUNNERS_UP]
        best = [] if longer.best is None else [longer.best]
        named |= {f"long {number}": each.candidate for number, each in enumerate([*best, *others])}
    names: dict[Any, str] = {}
    same = {name: names.setdefault(each.key, name) for name, each in named.items()}
    times = in_turns(task, slice, {name: named[name] for name in dict.fromkeys(same.values())}, turns)
    if same[TUNED] not in times or same[DEFAULT] not in times:
        raise RuntimeError("a plan that had a time when it was tuned has none in turns")
    return {
        "task": task.to_json(), "slice": slice, "plans": result.counts.after, "before": result.counts.before,
        "all_kinds": result.counts.all_kinds, "tuned": first, "long": other, "known": len(known), "same": same,
        "turns": times, **judged(times, same[TUNED], same[DEFAULT]),
    }  # fmt: skip


def known_plans(files: Iterable[Path], kernel: str) -> list[Record]:
    """The best that each of earlier files found of a kernel, in a minute and in longer."""
    records = [records_in(file).get(kernel, {}) for file in files]
    found = [each.get(search) or {} for each in records for search in ("tuned", "long")]
    return [{name: each["best"][name] for name in ("plan", "constants")} for each in found if each.get("best")]


def _named(success: Success) -> Record:
    return {**candidate_to_json(success.candidate), **asdict(success.measured)}


Kernels = Annotated[str, typer.Option(help="Kernels or families of the library between commas, or all.")]
Seconds = Annotated[float, typer.Option(min=1.0)]
NONE: list[Path] = []


@app.command()
def run(
    file: Path, kernels: Kernels = "all", budget: Seconds = 60.0, long: Seconds = 600.0, only_tune: bool = False,
    slice_: Annotated[str, typer.Option("--slice")] = "cpu", few: int = FEW, turns: int = 21,
    sitting: Annotated[float, typer.Option(help="Seconds after which no kernel is begun.")] = 1e9, again: bool = False,
    known: Annotated[list[Path], typer.Option(help="An earlier FILE, whose best plans are timed as well.")] = NONE,
) -> None:  # fmt: skip
    """Tune and compare kernels that the file has no record of; with --again those too that failed."""
    began = monotonic()
    done = records_in(file)
    for task in library_tasks(kernels.split(",")):
        if task.name in done and not (again and "failed" in done[task.name]):
            continue
        if monotonic() - began > sitting:
            break
        settings = {
            "kernel": task.name, "slice": slice_, "budget": budget, "long": None if only_tune else long, "few": few,
            "turns": turns, "known": known_plans(known, task.name),
        }  # fmt: skip
        limit = MORE_SECONDS + budget + (0 if only_tune else 2.5 * long)
        told = {**asdict(Machine.here(usable_cores())), "when": time(), "load": os.getloadavg()[0]}
        record = {**settings, **told, **_child(settings, limit)}
        with file.open("a") as out:
            out.write(json.dumps(record) + "\n")
        console.print(record["failed"] if "failed" in record else _line(record), soft_wrap=True)
    console.print(summary(list(records_in(file).values())))


@app.command()
def show(file: Path) -> None:
    """Print the records as a table in Markdown."""
    print(table(records_in(file).values()))


@app.command(hidden=True)
def one(settings: str) -> None:
    """One kernel's record, to standard output: what a child does."""
    asked = json.loads(settings)
    task = task_named(asked["kernel"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            record = compared(
                task, asked["slice"], asked["budget"], asked["long"], asked["few"], asked["turns"], Path(folder),
                [candidate_from_json(each) for each in asked["known"]],
            )  # fmt: skip
    except Exception as error:
        record = {"failed": f"{type(error).__name__}: {error}"}
    print(json.dumps(record))


def task_named(kernel: str) -> Task:
    """A kernel's task, by the name that records have."""
    (task,) = (each for each in library_tasks([kernel]) if each.name == kernel)
    return task


def _child(settings: Record, limit: float) -> Record:
    """The record that a child of its own makes, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "one", json.dumps(settings)]
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        child = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            out, errors = child.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            return {"failed": f"it took more than {limit:.0f} s"}
        finally:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)  # it, and workers that are left
            child.wait()
    try:
        found: Record = json.loads(out.splitlines()[-1])
        return found
    except (ValueError, IndexError):
        return {"failed": f"the child ended with {child.returncode}: {errors[-400:]}"}


def _line(record: Record) -> str:
    part, gain, first = record["part"]["median"], record["gain"]["median"], record["tuned"]
    times = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in first["spent"].items() if seconds > 0.05)
    said = f"{part:.3f} of the best ({record['best']}), {gain:.3f} times as fast as the default"
    return f"{record['kernel']}: {said}; {first['tried']} of {record['plans']} plans tried; {times}"


if __name__ == "__main__":
    app()
