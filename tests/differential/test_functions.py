"""Every function of the library keeps its bound, refuses what is wrong and writes nothing else, whatever it is given.

`python -m tests.differential` makes many more calls.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vkernels import library

from ..library.reference import fresh_seed
from .drawing import CALLS, draw_group
from .groups import COMMAND, Worker
from .known import is_known
from .run import public_functions
from .subjects import BOUNDS, SUBJECTS

FEW = 1
"""Calls of each seed; `-m thorough` makes all."""

DRAWN = 20
"""Functions of a usual run, other ones each time; `-m thorough` takes all."""


@pytest.fixture(scope="module")
def few() -> Iterator[Worker]:
    worker = Worker(patience=240.0, command=(*COMMAND, str(FEW)))
    yield worker
    worker.close()


@pytest.fixture(scope="module")
def first() -> int:
    """A fresh seed. It and those after it draw one function after another."""
    return fresh_seed()


def failures(worker: Worker, seed: int, calls: int) -> list[str]:
    """What failed of a seed, with the command that repeats it. Calls that are known to fail are not made."""
    known = [number for number, case in enumerate(draw_group(seed, SUBJECTS)[:calls]) if is_known(case)]
    found = worker.run(seed, known)["failures"]
    return [f"{each['kind']}: {each['where']}\n{each['message']}\n{each['repeat']}" for each in found]


@pytest.mark.parametrize("number", range(DRAWN))
def test_the_function_is_right(number: int, first: int, few: Worker) -> None:
    found = failures(few, first + number, FEW)
    assert not found, "\n".join(found)


@pytest.mark.thorough
def test_every_function_is_right_many_times() -> None:
    seed, worker = fresh_seed(), Worker(patience=240.0)
    try:
        found = [each for number in range(5 * len(SUBJECTS)) for each in failures(worker, seed + number, CALLS)]
    finally:
        worker.close()
    assert not found, "\n".join(found)


def test_every_public_function_is_tested_and_has_a_bound() -> None:
    assert set(public_functions()) == set(SUBJECTS) == set(BOUNDS)
    assert set(library.__all__) <= set(SUBJECTS)


def test_a_seed_draws_the_same_cases() -> None:
    seed = fresh_seed()
    for number in range(len(SUBJECTS)):
        assert draw_group(seed + number, SUBJECTS) == draw_group(seed + number, SUBJECTS)


def test_seeds_one_after_another_draw_every_function() -> None:
    seed = fresh_seed()
    drawn = [draw_group(seed + number, SUBJECTS)[0].function for number in range(len(SUBJECTS))]
    assert sorted(drawn) == sorted(SUBJECTS)
