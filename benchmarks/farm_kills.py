"""A farm whose machines are killed while jobs run, and what the database says of it; `benchmarks/farm.py kills`."""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from farm_real import KERNELS, SLICE, kill, machine, running, wait, wanted_task

from vkernels.autotune.database.database import Database
from vkernels.autotune.database.entry import Entry
from vkernels.farm.client import ENDED, Farm
from vkernels.ir.errors import Error

BUDGET, OPEN, TURN = 15.0, 4, 4.0
"""Seconds of a job, jobs that are open while machines are killed, and seconds of a turn."""
LATEST = 2.0
"""A machine is killed up to this many seconds after it was chosen."""
JOIN_SECONDS = 240.0


@dataclass
class Seen:
    """What the database said so far. `origins`: of each entry, the turns that measured it and their trials."""

    database: str
    origins: dict[str, set[tuple[str, int]]] = field(default_factory=dict)
    standings: dict[str, int] = field(default_factory=dict)
    gone: int = 0

    def look(self) -> int:
        """Take in what the database has now; returns how many entries these are."""
        found = self._entries()
        self.gone = max(self.gone, len(self.origins.keys() - {entry.identity for entry in found}))
        for entry in found:
            made = entry.provenance
            self.origins.setdefault(entry.identity, set()).add((made.run, made.trial))
            self.standings[entry.identity] = entry.standing
        return len(found)

    @property
    def again(self) -> list[str]:
        """Entries that more than one trial measured."""
        return [identity for identity, origins in self.origins.items() if len(origins) > 1]

    def _entries(self) -> Sequence[Entry]:
        with Database.open(self.database, read_only=True) as database:
            return database.entries()


def run_kills(folder: Path, kills: int, database: str, seed: int, seconds: float) -> dict[str, Any]:
    """Kill machines that measure, one after another, and let others join; compare what the database says.

    A machine is killed when a turn runs there and the farm has measured something since the last kill. `seconds`: when
    the run ends, whatever it reached. `database`: its address; by default a file in the folder.
    """
    random = np.random.default_rng(seed)
    cores = sorted(os.sched_getaffinity(0))
    seen = Seen(database or str(folder / "tuning.sqlite"))
    end = time.monotonic() + seconds
    killed = before = 0
    with running(folder, seen.database, turn=TURN) as farm:
        machines = {core: machine(folder, core) for core in cores}
        jobs = _jobs(farm)
        try:
            wait(lambda: farm.status()["slots"], JOIN_SECONDS)
            while killed < kills and time.monotonic() < end:
                while sum(job["state"] not in ENDED for job in farm.status()["jobs"]) < OPEN:
                    next(jobs)
                time.sleep(0.5)
                busy = [slot["cores"][0] for slot in farm.status()["slots"] if slot["job"]]
                if busy and (now := _count(seen)) > before:
                    core = int(random.choice(busy))
                    time.sleep(LATEST * random.uniform())
                    kill(machines[core])
                    machines[core] = machine(folder, core)
                    killed, before = killed + 1, now
            with suppress(TimeoutError):  # the states say which have not ended
                wait(lambda: _have_ended(farm, seen), max(1.0, end - time.monotonic()))
            seen.look()
            status = farm.status()
            lines = [line["text"] for job in status["jobs"] for line in farm.job(job["number"])["lines"]]
        finally:
            for each in machines.values():
                _end(each)
    states = [job["state"] for job in status["jobs"]]
    return {
        "machines killed": killed, "turns lost with them": sum(" lost: " in line for line in lines),
        "jobs": ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states))),
        "reasons": [reason for job in status["jobs"] for reason in job["reasons"]],
        "entries": len(seen.origins), "entries gone": seen.gone, "waiting for the database": status["unwritten"],
        "measured by two trials": len(seen.again),
        "of these selected": sum(seen.standings[identity] == 3 for identity in seen.again),
        "seconds": round(seconds - (end - time.monotonic())),
    }  # fmt: skip


def _jobs(farm: Farm) -> Iterator[int]:
    """Submit one more job with each step: another kernel, and other sizes in each round."""
    for round_ in itertools.count():
        for name, shape in KERNELS.items():
            sizes = {size: value + 16 * round_ for size, value in shape.items()}
            yield farm.submit([wanted_task(name, sizes, 1)], [SLICE], seconds=BUDGET)


def _count(seen: Seen) -> int:
    with suppress(Error):  # there may be no database yet
        return seen.look()
    return 0


def _have_ended(farm: Farm, seen: Seen) -> bool:
    _count(seen)
    return all(job["state"] in ENDED for job in farm.status()["jobs"])


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        kill(process)
