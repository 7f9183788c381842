"""The tuner itself in a process of its own, for tests: its bench measures nothing, but writes down what it would."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.autotune.fake_bench import FakeBench
from vkernels.autotune.database import Database
from vkernels.autotune.drive import Stop
from vkernels.autotune.measure import Candidate, Outcome
from vkernels.autotune.plan_space import read
from vkernels.autotune.tune import tune
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan
from vkernels.ir.plan_json import plan_from_json, plan_to_json
from vkernels.library.tasks import library_tasks

(TASK,) = library_tasks(["softmax_rows"])
LIMITS = Limits(registers=16, register_bytes=32, shared=1 << 20, multiprocessors=1, cache=32 << 20)
SPACE = read(TASK, LIMITS)
"""Read when this is imported, so that processes forked from one that has it have it too."""
MEASURING = 0.004
"""Seconds that a measurement pretends to take."""


@dataclass
class LoggingBench(FakeBench):
    """Writes a line for each candidate before it is measured."""

    write: Callable[[str], object] = print

    def measure(self, candidate: Candidate, timeout: float = 60.0, **more) -> Outcome:
        self.write(json.dumps(plan_to_json(candidate.plan)) + "\n")
        time.sleep(MEASURING)
        return super().measure(candidate, timeout, **more)


def seconds(candidate: Candidate) -> float:
    """Of a call by a plan: any that follow from it."""
    return 1e-3 * (1 + sum(map(ord, json.dumps(plan_to_json(candidate.plan)))) % 97)


def run(url: str, seed: int, evaluations: int, log: str) -> None:
    """Tune as `vk tune` does, into a database."""
    with Database.open(url) as database, open(log, "a", buffering=1) as said:
        bench = LoggingBench(seconds, write=said.write)
        stop = Stop(evaluations=evaluations)
        tune(TASK, "cpu:cores=1", stop, "random", seed, bench=bench, database=database, space=SPACE)
        said.write("ended\n")


def measured(lines: Sequence[str]) -> list[Plan]:
    """The plans in a log; a line that was cut off is of none."""
    return [plan_from_json(json.loads(line)) for line in lines if line.startswith("{") and line.endswith("}")]
