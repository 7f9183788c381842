"""The tuner: eight at once into one database, and one that is killed ten times and goes on."""

from __future__ import annotations

import multiprocessing
import random
import time
from pathlib import Path

import pytest

from vkernels.autotune.database import Database

from .tuner import measured, run

TUNERS = 8
KILLS = 10
TRIALS = 40
LIMIT = 200


@pytest.fixture(scope="module")
def processes() -> multiprocessing.context.ForkServerContext:
    """Processes that have imported everything already, so that they begin to tune at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.autotune.database.tuner", "sqlalchemy", "psycopg"])
    return context


def plans_in(url):
    with Database.open(url) as database:
        contents = database.read()
    assert contents.damaged == ()
    return [entry.shown for entry in contents.entries]


@pytest.mark.slow
@pytest.mark.sample(1)
def test_eight_tuners_into_one_database_lose_nothing(url, tmp_path, processes):
    logs = [tmp_path / f"log{seed}" for seed in range(TUNERS)]
    started = [processes.Process(target=run, args=(url, seed, 8, str(log))) for seed, log in enumerate(logs)]
    for process in started:
        process.start()
    for process in started:
        process.join(LIMIT)
        assert process.exitcode == 0
    kept = plans_in(url)
    for log in logs:
        lines = log.read_text().splitlines()
        assert lines[-1] == "ended"
        assert all(plan in kept for plan in measured(lines))


@pytest.mark.slow
@pytest.mark.sample(1)
def test_a_tuner_that_is_killed_ten_times_measures_nothing_twice_but_what_was_in_flight(url, tmp_path, processes):
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    lost, done = [], []
    for number in range(KILLS):
        log = tmp_path / f"log{number}"
        log.touch()
        process = processes.Process(target=run, args=(url, 0, TRIALS, str(log)))
        process.start()
        _wait_for_one(log, process)
        time.sleep(chance.uniform(0, 0.1))
        process.kill()
        process.join(LIMIT)
        plans, kept = measured(log.read_text().splitlines()), plans_in(url)
        assert all(plan in kept for plan in plans[:-1])
        lost += [plan for plan in plans[-1:] if plan not in kept]
        done += plans
    log = tmp_path / "last"
    run(url, 0, TRIALS, str(log))
    done += measured(log.read_text().splitlines())
    kept = plans_in(url)
    assert len(kept) >= TRIALS
    assert all(plan in kept or plan in lost for plan in done)  # the search need not come to what was lost again
    assert len(done) == len(kept) + len(lost)


def _wait_for_one(log: Path, process: multiprocessing.process.BaseProcess) -> None:
    end = time.monotonic() + LIMIT
    while not log.read_text() and process.is_alive():
        assert time.monotonic() < end, "the tuner does not begin"
        time.sleep(0.002)
