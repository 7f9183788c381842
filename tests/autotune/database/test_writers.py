"""Many write at once, and are killed at any moment: what was added stays, and nothing is measured twice for it."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from vkernels.autotune.database import Database

from .writer import name, write

WRITERS = 8
EACH = 8
KILLS = 10
TRIALS = 70
LIMIT = 120


@pytest.fixture(scope="module")
def processes() -> multiprocessing.context.ForkServerContext:
    """Processes that have imported everything already, so that they begin to write at once."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.autotune.database.writer", "sqlalchemy", "psycopg"])
    return context


def test_eight_processes_lose_nothing(url, tmp_path, processes):
    started = [
        processes.Process(target=write, args=(url, writer, EACH, str(tmp_path / f"log{writer}")))
        for writer in range(WRITERS)
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(LIMIT)
        assert process.exitcode == 0
    with Database.open(url, read_only=True) as database:
        contents = database.read()
    assert contents.damaged == ()
    found = Counter((entry.kernel, entry.plan.tiles["i"], entry.seconds) for entry in contents.entries)
    expected = {
        (f"kernel_{name(writer)}", number, float(number)): 1
        for writer in range(WRITERS)
        for number in range(1, EACH + 1)
    }
    assert found == expected


def test_one_that_is_killed_ten_times_goes_on_where_it_was(url, tmp_path, processes):
    log, seed = tmp_path / "log", random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    kills = 0
    log.touch()
    while kills < KILLS:
        process = processes.Process(target=write, args=(url, 0, TRIALS, str(log)))
        begun = len(_lines(log))
        process.start()
        _wait_for_more(log, begun, process)
        time.sleep(chance.uniform(0, 0.15))
        process.kill()
        process.join(LIMIT)
        kills += 1
        _check(url, log)
    process = processes.Process(target=write, args=(url, 0, TRIALS, str(log)))
    process.start()
    process.join(LIMIT)
    assert process.exitcode == 0
    with Database.open(url, read_only=True) as database:
        assert sorted(entry.plan.tiles["i"] for entry in database.entries()) == [*range(1, TRIALS + 1)]
    in_flight = sum(_in_flight(lines) for lines in _by_process(log))
    measured = sum(line.startswith("measures") for line in _lines(log))
    assert measured <= TRIALS + in_flight
    assert in_flight <= KILLS


def _check(url: str, log: Path) -> None:
    """What somebody was told is added is there, and what is there can be read."""
    with Database.open(url) as database:
        contents = database.read()
    there = {entry.plan.tiles["i"] for entry in contents.entries}
    assert contents.damaged == ()
    assert {int(line.split()[1]) for line in _lines(log) if line.startswith("added")} <= there


def _lines(log: Path) -> list[str]:
    return [line for line in log.read_text().splitlines() if len(line.split()) == 3]


def _by_process(log: Path) -> list[list[str]]:
    found: dict[str, list[str]] = {}
    for line in _lines(log):
        found.setdefault(line.split()[2], []).append(line)
    return [*found.values()]


def _in_flight(lines: list[str]) -> bool:
    """Whether a process was killed between beginning a measurement and being told that it is kept."""
    return lines[-1].startswith("measures")


def _wait_for_more(log: Path, begun: int, process: multiprocessing.process.BaseProcess) -> None:
    end = time.monotonic() + LIMIT
    while len(_lines(log)) <= begun and process.is_alive():
        assert time.monotonic() < end, "the writer does not begin"
        time.sleep(0.002)
