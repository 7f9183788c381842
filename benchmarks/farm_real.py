"""Farms that run for real on this machine: many submissions in one order or another.

`benchmarks/farm.py real` and `compare` use it, and `farm_kills`. Each Ray node has one core, as `cpu:cores=1`.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from farm_models import NAMES

from vkernels.commands.farm.jobs import tasks_of_model
from vkernels.farm import service
from vkernels.farm.client import ENDED, Farm
from vkernels.farm.records import Wanted
from vkernels.inspect.specialisation import SpecialisationRequest
from vkernels.library.tasks import library_tasks

SLICE = "cpu:cores=1"
USERS = ("ann", "ben", "cem")
FINAL = 3
NEAR = 0.97
"""Part of the best known speed at which a job counts as served."""
BUDGETS = (3.0, 5.0, 8.0, 12.0)
"""Seconds of a task."""
GAP = 2.0
"""Mean seconds between two submissions."""
KERNELS: dict[str, dict[str, int]] = {
    "softmax_rows": {"M": 256, "N": 1024}, "log_softmax_rows": {"M": 256, "N": 768},
    "layer_norm_rows": {"M": 256, "N": 512}, "rms_norm_rows": {"M": 256, "N": 2048},
    "softmax_gradient": {"M": 128, "N": 1024}, "cumulative_sum_rows": {"M": 256, "N": 512},
    "matmul_bias": {"M": 256, "N": 256, "K": 256}, "matmul_batches": {"B": 8, "M": 128, "N": 128, "K": 64},
    "stencil_square": {"B": 1, "M": 256, "N": 256}, "activate_elements": {"M": 256, "N": 1024},
    "reduce_middle": {"A": 16, "N": 512, "C": 64}, "l2_normalize_rows": {"M": 256, "N": 1000},
}  # fmt: skip
JOIN = """
import sys
from pathlib import Path
from vkernels.farm.offers import offers_here
from vkernels.farm.ray_processes import join
join(sys.argv[1], Path(sys.argv[2]), offers_here(["cpu:cores=1"]), Path(sys.argv[3]), 60.0)
"""


@dataclass(frozen=True)
class Submitted:
    """A job of a run. `at`: seconds since the run began; `tasks`: kernel, sizes as text and share of the time."""

    number: int
    user: str
    at: float
    tasks: list[tuple[str, str, float]]


def drawn(count: int, seed: int) -> list[tuple[float, str, list[Wanted], float]]:
    """Arrival, user, tasks and budget of submissions, three of them models. Sizes differ by up to twice."""
    random = np.random.default_rng(seed)
    arrivals = np.cumsum(random.exponential(GAP, count))
    models = {int(place): name for place, name in zip(random.choice(count, len(NAMES), False), NAMES, strict=True)}
    found = []
    for number, at in enumerate(arrivals):
        if number in models:
            tasks = tasks_of_model(f"{Path(__file__).parent / 'farm_models.py'}:{models[number]}")
        else:
            name = str(random.choice(list(KERNELS)))
            shape = {size: int(value * random.uniform(0.6, 1.2)) // 8 * 8 for size, value in KERNELS[name].items()}
            tasks = [wanted_task(name, {size: max(1, value) for size, value in shape.items()}, 1)]
        found.append((float(at), USERS[int(random.integers(3))], tasks, float(random.choice(BUDGETS))))
    return found


def wanted_task(name: str, shape: dict[str, int], calls: int) -> Wanted:
    """A kernel of the library with these sizes in float32, and its calls."""
    (task,) = library_tasks([name], SpecialisationRequest(shape=shape, dtype="float32"))[:1]
    return Wanted(task.to_request(), calls)


def _shares(tasks: Sequence[Wanted]) -> list[tuple[str, str, float]]:
    """Kernel, sizes and part of the job's time of each task."""
    weights = [each.seconds or float(each.calls) for each in tasks]
    return [(_name(each), _sizes(each), weight / sum(weights)) for each, weight in zip(tasks, weights, strict=True)]


def run_real(folder: Path, policy: str, count: int, seed: int, turn: float, seconds: float) -> dict[str, Any]:
    """Submit jobs as they are drawn and wait until they end; what each plan took, and when it was known."""
    jobs = drawn(count, seed)
    database = folder / "tuning.sqlite"
    with (
        running(folder, policy=policy, turn=turn, bound=seconds) as farm,
        nodes(folder, sorted(os.sched_getaffinity(0))),
    ):
        users = {name: farm.add_user(name) for name in USERS}
        wait(lambda: len(farm.status()["slots"]) == len(os.sched_getaffinity(0)), 90)
        began = time.monotonic()
        submitted: list[Submitted] = []
        seen: dict[str, float] = {}
        while (now := time.monotonic() - began) < seconds:
            while len(submitted) < count and jobs[len(submitted)][0] <= now:
                at, user, tasks, budget = jobs[len(submitted)]
                number = users[user].submit(tasks, [SLICE], seconds=budget)
                submitted.append(Submitted(number, user, at, _shares(tasks)))
            for identity, *_ in plans_in(database):
                seen.setdefault(identity, now)
            states = [job["state"] for job in farm.status()["jobs"]]
            if len(states) == count and all(state in ENDED for state in states):
                break
            time.sleep(0.25)
        status = farm.status()["jobs"]
    return {
        "policy": policy, "seed": seed, "turn": turn, "seconds": time.monotonic() - began,
        "states": [job["state"] for job in status], "served": sum(job["served"] for job in status),
        "reasons": [reason for job in status for reason in job["reasons"]],
        "jobs": [asdict(job) for job in submitted],
        "plans": [[*row, seen.get(row[0], time.monotonic() - began)] for row in plans_in(database)],
    }  # fmt: skip


def _name(wanted: Wanted) -> str:
    return str(wanted.task["kernel"]).rpartition(":")[2]


def _sizes(wanted: Wanted) -> str:
    return json.dumps(wanted.task["shape"], sort_keys=True)


def plans_in(database: Path) -> list[tuple[str, str, str, int, float]]:
    """Plans with a time: identity, kernel, sizes as text, standing, and seconds."""
    if not database.is_file():
        return []
    found: list[tuple[str, str, str, int, float]] = []
    connection = sqlite3.connect(f"file:{database}?mode=ro", uri=True, timeout=10)
    with closing(connection), suppress(sqlite3.Error):  # there may be no tables yet
        found = connection.execute(
            "SELECT identity, kernel, shape, standing, json_extract(document, '$.seconds') FROM vkernels_entries "
            "WHERE standing IN (2, 3)"
        ).fetchall()
    return found


def times_to_near(runs: Sequence[dict[str, Any]]) -> list[list[float]]:
    """Of each run, each job's seconds from submission until a plan of nearly the best known speed was known.

    A plan's seconds are the median over all runs that measured it; a job's are those of its tasks, weighted. The best
    known are those of plans that a run selected: the least of many single times is a lucky one. A job that never comes
    near counts until the end of its run.
    """
    pooled: dict[str, list[float]] = {}
    for run in runs:
        for identity, _, _, _, seconds, _ in run["plans"]:
            pooled.setdefault(identity, []).append(seconds)
    score = {identity: median(each) for identity, each in pooled.items()}
    best: dict[tuple[str, str], float] = {}
    for run in runs:
        for identity, kernel, sizes, standing, _, _ in run["plans"]:
            if standing == FINAL:
                best[kernel, sizes] = min(best.get((kernel, sizes), float("inf")), score[identity])
    return [[_time_to_near(job, run, score, best) for job in run["jobs"]] for run in runs]


def _time_to_near(
    job: dict[str, Any], run: dict[str, Any], score: dict[str, float], best: dict[tuple[str, str], float]
) -> float:
    share = {(kernel, sizes): share for kernel, sizes, share in job["tasks"]}
    slower = {task: float("inf") for task in share}
    for identity, kernel, sizes, _, _, at in sorted(run["plans"], key=lambda row: row[-1]):
        task = (kernel, sizes)
        if task in share and task in best:
            slower[task] = min(slower[task], score[identity] / best[task])
            if sum(share[each] * slower[each] for each in share) <= 1 / NEAR:
                return max(0.0, at - job["at"])
    return float(run["seconds"] - job["at"])


# Farms


@contextmanager
def running(folder: Path, database: str = "", **settings: Any) -> Iterator[Farm]:
    """A farm in a folder. `database`: the address for results; by default a file in the folder."""
    farm = service.start(folder, service.Settings(database or str(folder / "tuning.sqlite"), **settings))
    try:
        yield farm
    finally:
        farm.stop()
        wait(lambda: not service.is_running(folder), 60)


def machine(folder: Path, core: int) -> subprocess.Popen[bytes]:
    """A machine that joins with one core."""
    return subprocess.Popen(
        ["taskset", "-c", str(core), sys.executable, "-c", JOIN, service.ray_address(folder),
         str(folder / service.TOKEN), str(folder / "node.log")],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


@contextmanager
def nodes(folder: Path, cores: Sequence[int]) -> Iterator[None]:
    """A machine for each core."""
    machines = [machine(folder, core) for core in cores]
    try:
        yield
    finally:
        for each in machines:
            kill(each)


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a machine: all its processes, at once."""
    for number in [process.pid, *_descendants(process.pid)]:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    process.wait()


def _descendants(process: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{process}/task"):
            for child in Path(f"/proc/{process}/task/{thread}/children").read_text().split():
                found += [int(child), *_descendants(int(child))]
    return found


def wait(holds: Any, seconds: float) -> None:
    """Wait until something holds. Raises `TimeoutError`."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {seconds:.0f} s")
        time.sleep(0.2)
