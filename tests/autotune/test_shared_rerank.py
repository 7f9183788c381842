"""Slices that are alike have one duel, and nobody waits for who will not come."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

import vkernels as vk
from vkernels.autotune.measure import Candidate, Measurement, Outcome
from vkernels.autotune.shared_finals import SharedFinals
from vkernels.ir.plan import Plan


def candidate(tile: int) -> Candidate:
    return Candidate(Plan(tiles={"i": tile}))


class Duels:
    """Runs of duels; a candidate's time is its tile."""

    def __init__(self) -> None:
        self.runs: list[list[int]] = []
        self.lock = threading.Lock()

    def __call__(self, candidates: list[Candidate]) -> list[Outcome]:
        tiles = [each.plan.tiles["i"] for each in candidates]
        with self.lock:
            self.runs.append(tiles)
        return [Measurement(float(tile), float(tile), float(tile), 9) for tile in tiles]


def seconds(outcomes: list[Outcome]) -> list[float]:
    return [each.seconds for each in outcomes if isinstance(each, Measurement)]


def test_finalists_of_all_slices_are_timed_once_and_each_has_the_times_of_its_own():
    finals, run = SharedFinals(["a", "b", "c"]), Duels()
    wanted = {"a": [1, 2], "b": [2, 3], "c": [4, 1]}
    with ThreadPoolExecutor(3) as pool:
        found = {
            n: pool.submit(finals.paired_comparison, n, [candidate(t) for t in tiles], run)
            for n, tiles in wanted.items()
        }
    assert len(run.runs) == 1
    assert sorted(run.runs[0]) == [1, 2, 3, 4]
    assert {name: seconds(each.result()) for name, each in found.items()} == wanted


def test_nobody_waits_for_a_slice_that_has_ended():
    finals, run = SharedFinals(["a", "b"]), Duels()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(finals.paired_comparison, "a", [candidate(1)], run)
        finals.leave("b")
        assert seconds(waiting.result(60)) == [1]


def test_a_slice_that_asks_again_or_late_has_a_duel_of_its_own():
    finals, run = SharedFinals(["a"]), Duels()
    assert seconds(finals.paired_comparison("a", [candidate(1)], run)) == [1]
    assert seconds(finals.paired_comparison("a", [candidate(2), candidate(1)], run)) == [2, 1]
    assert run.runs == [[1], [2, 1]]


def test_who_fights_on_does_so_together_and_nobody_waits_for_who_searches_on():
    finals, run = SharedFinals(["a", "b", "c"]), Duels()
    first = {"a": [1, 2], "b": [2, 3], "c": [4]}
    with ThreadPoolExecutor(3) as pool:

        def fight(wanted: dict[str, list[int]]) -> dict[str, list[float]]:
            tasks = {
                n: pool.submit(finals.paired_comparison, n, [candidate(t) for t in tiles], run)
                for n, tiles in wanted.items()
            }
            return {name: seconds(each.result(60)) for name, each in tasks.items()}

        finals.search_on("a")  # before its first duel: it is waited for
        assert fight(first) == first
        finals.search_on("c")
        again = {"a": [1], "b": [3, 2]}
        assert fight(again) == again
        finals.leave("a")
        assert fight({"b": [3]}) == {"b": [3]}
        finals.leave("b")
        assert fight({"c": [5]}) == {"c": [5]}
    assert [sorted(tiles) for tiles in run.runs] == [[1, 2, 3, 4], [1, 2, 3], [3], [5]]


def test_who_gives_up_lets_each_try_its_own():
    finals, run = SharedFinals(["a", "b"]), Duels()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(finals.paired_comparison, "a", [candidate(1)], run)
        finals.give_up()
        assert seconds(waiting.result(60)) == [1]
    assert seconds(finals.paired_comparison("b", [candidate(2)], run)) == [2]


def test_a_duel_that_fails_is_its_own_slices_error_and_the_others_try_theirs():
    finals, failing = SharedFinals(["a", "b"]), threading.Event()

    def run(candidates: list[Candidate]) -> list[Outcome]:
        if not failing.is_set():
            failing.set()
            raise vk.SetupError("no worker comes up")
        return Duels()(candidates)

    with ThreadPoolExecutor(2) as pool:
        found = [
            pool.submit(finals.paired_comparison, name, [candidate(tile)], run) for name, tile in (("a", 1), ("b", 2))
        ]
    errors = [each.exception() for each in found]
    assert sorted(error is None for error in errors) == [False, True]
    with pytest.raises(vk.SetupError, match="comes up"):
        raise next(error for error in errors if error is not None)
