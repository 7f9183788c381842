"""Compare the library with references: `python -m tests.differential --calls 100000 --state FILE --processes 2`.

Each seed is one specialisation of one function, called 20 times; seeds one after another go through all functions. With
`--state FILE`, seeds that the file has are not run again: the same command goes on where it was stopped. A failure is
repeated by the command that stands beside it."""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from itertools import count
from pathlib import Path
from typing import Any

from .groups import Worker
from .log import Log

EVERY = 30.0
"""Seconds between lines on progress."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--calls", type=int, default=1000, help="calls to make, those of the state among them")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 31), help="the first seed")
    parser.add_argument("--call", type=int, help="make this one call of the first seed in this process")
    parser.add_argument("--function", help="this function's seeds alone")
    parser.add_argument("--processes", type=int, default=1, help="worker processes")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so many")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds that one call may take")
    parser.add_argument("--state", type=Path, help="keep what came of each seed here")
    options = parser.parse_args()
    if options.call is not None:
        return one_call(options.seed, options.call)
    print(f"seed = {options.seed}", flush=True)
    run = _Run(options, Log(options.state))
    threads = [threading.Thread(target=run.work) for _ in range(options.processes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print(f"{run.log.report()}\n{time.monotonic() - run.began:.0f} s", flush=True)
    return 1 if run.log.failures else 0


def one_call(seed: int, call: int) -> int:
    """What a recorded call gives, in this process."""
    from .worker import prepare, run_group

    prepare()
    answer = run_group(seed, lambda note: print(note["note"], flush=True), only=call)
    for failure in answer["failures"]:
        print(f"{failure['kind']}: {failure['message']}")
    print(answer["counts"])
    return 1 if answer["failures"] else 0


class _Run:
    """Seeds shared out to workers, one after another."""

    def __init__(self, options: argparse.Namespace, log: Log):
        from .subjects import SUBJECTS

        self.options, self.log = options, log
        self.began = self._told = time.monotonic()
        names = sorted(SUBJECTS)
        wanted = options.function
        self._seeds = (s for s in count(options.seed) if wanted in (None, names[s % len(names)]) and s not in log.seeds)
        self._lock = threading.Lock()

    def work(self) -> None:
        worker = Worker(self.options.patience)
        try:
            while (seed := self._next()) is not None:
                self._note(seed, worker.run(seed))
        finally:
            worker.close()

    def _next(self) -> int | None:
        with self._lock:
            late = time.monotonic() - self.began > self.options.seconds
            return None if late or self.log.calls >= self.options.calls else next(self._seeds)

    def _note(self, seed: int, outcome: dict[str, Any]) -> None:
        with self._lock:
            self.log.add(seed, outcome)
            for failure in outcome["failures"]:
                print(
                    f"{failure['kind']}: {failure['where']}\n    {failure['message']}\n    {failure['repeat']}",
                    flush=True,
                )
            if time.monotonic() - self._told > EVERY:
                self._told = time.monotonic()
                print(f"{self.log}, at seed {seed}, {self._told - self.began:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
