"""Run random cases: `python -m tests.generated --seconds 7200 --processes 2 --state FILE --keep-going`.

Each seed is a kernel. Of one seed it is planned for several limits, and the chosen plans run on several calls; of the
next it is a random kernel under random plans, run in every way (`--kind planned`, `--kind drawn`: such seeds alone).
With `--state FILE`, seeds that the file has are not run again: the same command goes on where it was stopped."""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

from .children import PATIENCE, Child, worker_of
from .kinds import KINDS, kind_of
from .log import Log

EVERY = 30.0
"""Seconds between lines on progress."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.generated", description=__doc__)
    parser.add_argument("--kind", choices=[*KINDS, "all"], default="all", help="the kind of cases")
    parser.add_argument("--cases", type=int, default=sys.maxsize, help="cases to run, those of the state among them")
    parser.add_argument("--seeds", type=int, default=sys.maxsize, help="seeds to run")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="the first seed")
    parser.add_argument("--processes", type=int, default=1, help="worker processes")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failure")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds that a plan's cases may take")
    parser.add_argument("--state", type=Path, help="keep what came of each seed here")
    options = parser.parse_args()
    print(f"seed = {options.seed}", flush=True)
    run = _Run(options, Log(options.state))
    threads = [threading.Thread(target=run.work) for _ in range(options.processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{run.log.report()}\n{time.monotonic() - run.began:.0f} s", flush=True)
    return 1 if run.log.failures else 0


class _Run:
    """Seeds shared out to workers, one after another."""

    def __init__(self, options: argparse.Namespace, log: Log):
        self.options, self.log = options, log
        self.kinds = list(KINDS) if options.kind == "all" else [options.kind]
        self.began = self._told = time.monotonic()
        self._seeds = (seed for seed in count(options.seed) if seed not in log.seeds)
        self._left = options.seeds
        self._lock = threading.Lock()
        self._stopped = False

    def work(self) -> None:
        child = Child(self.options.patience, worker_of(self.kinds))
        try:
            while (seed := self._next()) is not None:
                self._note(seed, child.run(seed))
        finally:
            child.close()

    def _next(self) -> int | None:
        with self._lock:
            late = time.monotonic() - self.began > self.options.seconds
            if self._stopped or late or not self._left or self.log.counts["cases"] >= self.options.cases:
                return None
            self._left -= 1
            return next(self._seeds)

    def _note(self, seed: int, outcome: dict[str, Any]) -> None:
        with self._lock:
            self.log.add(seed, outcome)
            kind = kind_of(seed, self.kinds)
            for failure in outcome["failures"]:
                print(f"seed {seed} failed: {failure['where']}\n{failure['message']}", flush=True)
                print(f"repeat it: python -m tests.generated --kind {kind} --seed {seed} --seeds 1", flush=True)
            self._stopped = self._stopped or bool(outcome["failures"] and not self.options.keep_going)
            if time.monotonic() - self._told > EVERY:
                self._told = time.monotonic()
                print(f"{self.log}, {self._told - self.began:.0f} s, seed {seed}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
