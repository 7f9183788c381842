"""Run cases of planned kernels: `python -m tests.generated.planned_cases --count 100000 --seed 7 --keep-going`.

Each seed is a kernel, planned for several limits and run on several calls; `--seed S --count 1` repeats one. With
`--log FILE`, seeds that the file has are not run again: the same command goes on where it was stopped."""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

from .children import PATIENCE, Child
from .log import Log

EVERY = 30.0
"""Seconds between lines on progress."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.generated.planned_cases", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="cases to run, those of the log among them")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failure")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds that a plan's cases may take")
    parser.add_argument("--log", type=Path, help="keep what came of each seed here")
    options = parser.parse_args()
    print(f"seed = {options.seed}", flush=True)
    run = _Run(options, Log(options.log))
    threads = [threading.Thread(target=run.work) for _ in range(options.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{run.log}, {time.monotonic() - run.began:.0f} s", flush=True)
    for name, number in sorted(run.log.counts.items()):
        print(f"  {name}: {number}")
    return 1 if run.log.failures else 0


class _Run:
    """Seeds shared out to children, one after another."""

    def __init__(self, options: argparse.Namespace, log: Log):
        self.options, self.log = options, log
        self.began = self._told = time.monotonic()
        self._seeds = count(options.seed)
        self._lock = threading.Lock()
        self._stopped = False

    def work(self) -> None:
        child = Child(self.options.patience)
        try:
            while (seed := self._next()) is not None:
                self._note(seed, child.run(seed))
        finally:
            child.close()

    def _next(self) -> int | None:
        with self._lock:
            late = time.monotonic() - self.began > self.options.seconds
            if self._stopped or late or self.log.counts["cases"] >= self.options.count:
                return None
            return next(seed for seed in self._seeds if seed not in self.log.seeds)

    def _note(self, seed: int, outcome: dict[str, Any]) -> None:
        with self._lock:
            self.log.add(seed, outcome)
            for failure in outcome["failures"]:
                print(f"seed {seed} failed: {failure['where']}\n{failure['message']}", flush=True)
                print(f"repeat it with --seed {seed} --count 1", flush=True)
            self._stopped = self._stopped or bool(outcome["failures"] and not self.options.keep_going)
            if time.monotonic() - self._told > EVERY:
                self._told = time.monotonic()
                print(f"{self.log}, {self._told - self.began:.0f} s, seed {seed}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
