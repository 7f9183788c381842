"""Whether a tuned plan is faster than the default one wherever its kernel is called, and slower nowhere.

    python benchmarks/tuning_holds.py FILE.jsonl [--kernels layer_norm_rows,…] [--models gnn_layer,…] [--budget 60]
                                                 [--processes 5] [--caches program] [--sitting 1200]

Each kernel is tuned alone on one core, with an empty database. Then fresh processes, each with arguments of its own,
time both plans in turns in four settings: arguments that no cache holds, the same arguments again and again, and both
with torch reading the result at once, as the next layer of a model does; its seconds count too. Whole models are tuned
by `vk tune --model`, which takes back plans that do not pay there; then fresh processes run each model without and with
its database in turns. A line of the file has the speed-up in each setting, and its 95 % interval over the processes.
What the file has already is left out, so that a run may be continued, or end after one kernel. With `--sitting`, no
kernel or model is begun that would probably end after so many seconds: the longest of its kind so far is what one
takes. A kernel that cannot be judged is named in the end, and tried again in the next sitting.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import cycle
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).parent))

from common import json_lines
from holding_models import MODELS

from vkernels.autotune.drive import Stop
from vkernels.autotune.measure import Candidate, Effort
from vkernels.autotune.measure.measures import candidate_from_json, candidate_to_json
from vkernels.autotune.measure.subject import MeasuredTask
from vkernels.autotune.measure.timing import interval, interval_of_few, is_sure
from vkernels.autotune.measure.worker import run_on
from vkernels.autotune.slice_names import usable
from vkernels.autotune.tune import tune
from vkernels.commands.tune.model_worker import ModelService
from vkernels.inspect.task import Task
from vkernels.ir.errors import Error
from vkernels.library.tasks import library_tasks

SETTINGS = ("cold", "warm", "cold, result read", "warm, result read")
TURNS, TURN_SECONDS = 15, 0.01
"""Turns of each plan in each setting of a process, and their least length."""
PROCESS_SECONDS = 120.0
KERNELS = (
    "layer_norm_rows,mass,stencil_square,rms_norm_rows,softmax_rows,l2_normalize_rows,rotate_pairs,cumulative_sum_rows,"
    "matmul_bias,attention_rows,convolve,group_norm_groups,activate_elements,adamw_elements,cross_entropy_rows,"
    "sum_segment_rows,csr_times_dense,stencil_cross,reduce_middle,sparse_layer"
)
IN_MODEL = "whole model"
VK = "import sys; from vkernels.commands import main; sys.exit(main())"
PAIRS = 7
"""Pairs of runs of a model in a process."""

Call = Callable[[], object]


def judged(task: Task, seed: int, plans: Sequence[Candidate]) -> dict[str, float]:
    """The speed-up of the second plan over the first in each setting."""
    run_on(usable()[-1:])
    subject = MeasuredTask(task, seed, "cpu", Effort())
    reads = [_reader(values, subject.written) for values in subject.sets]
    calls = [subject.compiled(plan) for plan in plans]
    for some in calls:
        subject.check(some[0])
    found = {}
    for setting in SETTINGS:
        sets = range(len(reads)) if setting.startswith("cold") else [0]
        steps = [[_both(some[n], reads[n]) if "read" in setting else some[n] for n in sets] for some in calls]
        found[setting] = _speed_up([cycle(each) for each in steps], subject.restore)
    return found


def _reader(values: Mapping[str, Any], written: Sequence[str]) -> Call:
    import torch

    torch.set_num_threads(1)  # more threads than cores wait for each other longer than they read
    results = [torch.as_tensor(values[name]) for name in written]
    others = [torch.ones_like(result) for result in results]

    def read() -> None:
        for result, other in zip(results, others, strict=True):
            torch.add(result, other, out=other)

    return read


def _both(call: Call, read: Call) -> Call:
    def run() -> None:
        call()
        read()

    return run


def _speed_up(steps: Sequence[Iterator[Call]], restore: Call) -> float:
    counts = []
    for each in steps:
        began = perf_counter()
        for _ in range(20):
            next(each)()
        counts.append(max(1, round(20 * TURN_SECONDS / (perf_counter() - began))))
    ratios = []
    for turn in range(TURNS):
        seconds = [0.0, 0.0]
        for number in (0, 1) if turn % 2 else (1, 0):
            restore()
            next(steps[number])()
            began = perf_counter()
            for _ in range(counts[number]):
                next(steps[number])()
            seconds[number] = (perf_counter() - began) / counts[number]
        ratios.append(seconds[0] / seconds[1])
    return median(ratios)


def tuned(name: str, budget: float, caches: str) -> dict[str, Any]:
    """The default and the tuned plan of a library kernel, and the gain that tuning claims."""
    (task,) = library_tasks([name])
    more = {"caches": caches} if caches else {}
    result = tune(task, "cpu:cores=1", Stop(seconds=budget), **more)
    if result.best is None or result.default is None:
        raise SystemExit(f"{name}: no plan has a time")
    plans = [candidate_to_json(each.candidate) for each in (result.default, result.best)]
    return {"kernel": name, "plans": plans, "claimed": result.gain}


def tuned_model(name: str, budget: float, caches: str, database: Path) -> dict[str, Any]:
    """A model, the database that tuning it left, and the gain that tuning claims."""
    place = f"{Path(__file__).parent / 'holding_models.py'}:{name}"
    result = database.with_suffix(".json")
    options = ["--slice", "cores=1", "--budget", f"{budget}s", "--db", str(database), "--json", str(result)]
    options += ["--caches", caches] if caches else []
    command = [sys.executable, "-c", VK, "tune", "--model", place, *options]
    subprocess.run(command, stdout=subprocess.DEVNULL, timeout=3 * budget + PROCESS_SECONDS, check=True)
    ends = json.loads(result.read_text())["model"]["end_to_end"]
    claimed = max([1.0, *(end["gain"] for end in ends.values())])  # all plans are taken back where there is no gain
    return {"kernel": name, "model": place, "database": str(database), "claimed": claimed}


def judged_model(place: str, database: str) -> dict[str, float]:
    """How many times as fast a run of a model is with the plans of a database."""
    import torch

    run_on(usable()[-1:])
    torch.set_num_threads(1)
    service = ModelService()
    service.answer({"do": "start", "model": place})
    ratios = []
    for turn in range(PAIRS):
        seconds = {}
        for plans in (None, database) if turn % 2 else (database, None):
            answer = service.answer({"do": "run", "database": plans})
            seconds[plans] = answer.get("seconds") or sys.exit(str(answer["error"]))
        ratios.append(seconds[None] / seconds[database])
    return {IN_MODEL: median(ratios)}


def in_processes(record: Mapping[str, Any], count: int) -> dict[str, list[float]]:
    """The speed-ups in each setting, by process."""
    found: dict[str, list[float]] = {setting: [] for setting in ((IN_MODEL,) if "model" in record else SETTINGS)}
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(record, file)
        file.flush()
        for seed in range(1, count + 1):
            command = [sys.executable, __file__, file.name, "--seed", str(seed)]
            done = subprocess.run(command, stdout=subprocess.PIPE, timeout=PROCESS_SECONDS, check=True)
            for setting, ratio in json.loads(done.stdout).items():
                found[setting].append(ratio)
    return found


def held(name: str, is_model: bool, budget: float, caches: str, processes: int) -> dict[str, Any]:
    """Tune a kernel or a model, and time both plans in fresh processes: a line of the file."""
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "tuned.sqlite"
        record = tuned_model(name, budget, caches, database) if is_model else tuned(name, budget, caches)
        settings = {setting: with_interval(each) for setting, each in in_processes(record, processes).items()}
    return record | {"settings": settings, "caches": caches, "budget": budget}


def with_interval(ratios: Sequence[float]) -> tuple[float, float, float]:
    """The median of speed-ups and the ends of its 95 % interval."""
    low, high = interval(ratios) if is_sure(len(ratios)) else interval_of_few(ratios)
    return median(ratios), low, high


def show(records: Sequence[Mapping[str, Any]], console: Console) -> None:
    """Print the table, and what is slower than before."""
    for first, settings in (("kernel", SETTINGS), ("model", (IN_MODEL,))):
        table = Table(first, "claimed", *settings)
        for record in records:
            if settings[0] in record["settings"]:
                cells = ["{:.2f} ({:.2f}–{:.2f})".format(*record["settings"][setting]) for setting in settings]
                table.add_row(record["kernel"], f"{record['claimed']:.2f}", *cells)
        if table.row_count:
            console.print(table)
    slower = [
        f"{record['kernel']}, {setting}" for record in records for setting, found in record["settings"].items()
        if found[2] < 1
    ]  # fmt: skip
    if records:
        console.print(f"slower after tuning: {'; '.join(slower) or 'none'}")


def main(
    file: Path,
    kernels: str = KERNELS,
    models: str = ",".join(MODELS),
    budget: float = 60.0,
    processes: int = 5,
    caches: str = "program",
    sitting: Annotated[float, typer.Option(help="seconds for this run; the same command goes on later")] = 1e9,
    seed: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> None:
    """Tune kernels and models that the file lacks, time both plans, and print the tables."""
    if seed is not None:  # one of the fresh processes
        record = json.loads(file.read_text())
        if "model" in record:
            print(json.dumps(judged_model(record["model"], record["database"])))
            return
        (task,) = library_tasks([record["kernel"]])
        print(json.dumps(judged(task, seed, [candidate_from_json(each) for each in record["plans"]])))
        return
    began, known = monotonic(), {record["kernel"] for record in json_lines(file)}
    console, failed, left = Console(width=140, highlight=False), list[str](), list[str]()
    longest = {False: 0.0, True: 0.0}  # seconds of a kernel, and of a model
    for name in filter(None, [*kernels.split(","), *models.split(",")]):
        is_model = name in models.split(",")
        if name in known:
            continue
        before = monotonic()
        if before - began + max(longest[is_model], budget) > sitting:
            left.append(name)
            continue
        try:
            record = held(name, is_model, budget, caches, processes)
        except (SystemExit, subprocess.SubprocessError, Error) as error:
            failed.append(f"{name} ({error})")
        else:
            with file.open("a") as lines:
                lines.write(json.dumps(record) + "\n")
        longest[is_model] = max(longest[is_model], monotonic() - before)
        console.print(f"{name}: {monotonic() - before:.0f} s", markup=False)
    show([*json_lines(file)], console)
    for title, names in (("not judged", failed), ("left for the next sitting", left)):
        if names:
            console.print(f"{title}: {', '.join(names)}", markup=False)


if __name__ == "__main__":
    typer.run(main)
