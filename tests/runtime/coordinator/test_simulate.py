"""Simulated tasks share cores as they are said to: checked where the answer is known."""

import math
import random

import numpy as np
import pytest

import vkernels as vk
from tests.library.reference import fresh_seed
from vkernels.runtime.coordinator.simulate import WHOLE_CALL, SimulatedCalls, SimulatedTask, simulate


def task(name, priority="normal", duration=1e-3, gap=1e-3, **more):
    return SimulatedTask(name, priority, (duration,), (gap,), **more)


def test_alone_calls_take_as_long_as_recorded():
    random_ = random.Random(fresh_seed())
    durations, gaps = ([random_.uniform(1e-3, 2e-3) for _ in range(200)] for _ in range(2))
    (found,) = simulate([SimulatedTask("a", "normal", durations, gaps)], 1, 20.0, random_.randrange(1 << 30))
    for part in (0.1, 0.5, 0.9):
        assert found.quantile(part) == pytest.approx(np.quantile(durations, part), rel=0.05)
    assert found.rate == pytest.approx(1 / (np.mean(durations) + np.mean(gaps)), rel=0.05)


def test_two_of_one_priority_share_a_core_evenly():
    first, second = simulate([task("a", gap=0.0), task("b", gap=0.0)], 1, 10.0)
    for each in (first, second):
        assert each.quantile(0.5) == pytest.approx(2e-3)
        assert each.rate == pytest.approx(500, rel=0.01)


def test_two_on_two_cores_do_not_meet():
    for each in simulate([task("a"), task("b")], 2, 5.0):
        assert each.quantile(1) == pytest.approx(1e-3)


def test_higher_priority_takes_its_core_at_once_without_turns():
    high, low = simulate([task("high", "high"), task("low", "low", gap=0.0, turn=0.0)], 1, 20.0, fresh_seed())
    assert high.quantile(1) == pytest.approx(1e-3)
    assert low.rate == pytest.approx(500, rel=0.01)  # all of the gaps


def test_a_call_waits_for_the_rest_of_a_turn():
    tasks = [task("high", "high", gap=1.37e-3), task("low", "low", duration=0.1, gap=0.0, turn=4e-4)]
    high, _ = simulate(tasks, 1, 30.0, fresh_seed())
    assert 1e-3 <= high.quantile(0) < high.quantile(1) <= 1.4e-3 + 1e-9
    assert high.quantile(0.5) == pytest.approx(1.2e-3, rel=0.03)


def test_a_call_on_a_cpu_begins_when_its_thread_has_a_core():
    """A thread that waits for a core has not called yet: the time is not a part of the call that is measured."""
    low = task("low", "low", duration=0.1, gap=0.0, turn=4e-4)
    (high, _), (gpu, _) = (
        simulate([task("high", "high", gap=1.37e-3, begins_with_core=begins), low], 1, 30.0, fresh_seed())
        for begins in (True, False)
    )
    assert high.quantile(1) == pytest.approx(1e-3)
    assert gpu.quantile(1) > 1.2e-3
    assert high.rate == pytest.approx(gpu.rate, rel=0.02)


def test_what_cannot_be_interrupted_is_waited_for():
    random_ = random.Random(fresh_seed())
    gaps = [random_.uniform(0.01, 0.03) for _ in range(500)]
    tasks = [
        SimulatedTask("high", "high", (1e-3,), gaps),
        task("low", "low", duration=5e-3, gap=0.0, turn=WHOLE_CALL),
    ]
    high, low = simulate(tasks, 1, 30.0, random_.randrange(1 << 30))
    assert high.quantile(1) <= 6e-3 + 1e-9
    assert high.quantile(0.5) == pytest.approx(3.5e-3, rel=0.15)
    assert low.quantile(0.5) == pytest.approx(5e-3)


def test_lower_work_has_the_cores_that_are_left():
    tasks = [task("high", "high", gap=0.0), task("low", "low", duration=1e-3, gap=0.0, threads=2, turn=0.0)]
    high, low = simulate(tasks, 2, 10.0)
    assert high.quantile(1) == pytest.approx(1e-3)
    assert low.quantile(0.5) == pytest.approx(2e-3)  # on one core of two


def test_company_makes_calls_slower_while_it_runs():
    tasks = [task("a", slower={"b": 1.5}, gap=0.0), task("b", gap=0.0)]
    first, second = simulate(tasks, 2, 10.0)
    assert first.quantile(0.5) == pytest.approx(1.5e-3)
    assert second.quantile(0.5) == pytest.approx(1e-3)
    assert simulate([tasks[0]], 2, 1.0)[0].quantile(1) == pytest.approx(1e-3)


def test_company_on_a_part_of_its_cores_costs_a_part():
    tasks = [
        task("a", "high", slower={"b": 1.5}, gap=0.0),
        task("b", "low", duration=1e-3, gap=0.0, threads=2, turn=0.0),
    ]
    assert simulate(tasks, 2, 10.0)[0].quantile(0.5) == pytest.approx(1.25e-3)
    assert simulate(tasks, 3, 10.0)[0].quantile(0.5) == pytest.approx(1.5e-3)


def test_what_others_push_out_of_the_caches_is_fetched_again():
    tasks = [task("a", gap=0.01, refetched=2e-4, priority="high"), task("b", "low", gap=0.0, turn=0.0)]
    found, _ = simulate(tasks, 1, 10.0)
    assert found.quantile(0.5) == pytest.approx(1.2e-3)
    assert simulate([tasks[0]], 1, 1.0)[0].quantile(1) == pytest.approx(1e-3)


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_no_more_work_is_done_than_there_are_cores(cores):
    random_ = random.Random(fresh_seed())
    tasks = [
        SimulatedTask(
            f"task {number}", random_.choice(["low", "normal", "high"]),
            [random_.uniform(1e-5, 5e-3) for _ in range(20)], [random_.uniform(0, 5e-3) for _ in range(20)],
            random_.randint(1, cores), random_.choice([0.0, 5e-5, 1e-3, WHOLE_CALL]),
        )
        for number in range(5)
    ]  # fmt: skip
    seed = random_.randrange(1 << 30)
    found = simulate(tasks, cores, 5.0, seed)
    work = sum(min(t.durations) * t.threads * len(f.durations) for t, f in zip(tasks, found, strict=True))
    assert work <= 5.0 * cores
    assert found == simulate(tasks, cores, 5.0, seed)
    for each, calls in zip(tasks, found, strict=True):
        assert all(took >= min(each.durations) - 1e-9 for took in calls.durations)


def test_no_calls_have_no_quantile():
    assert math.isnan(SimulatedCalls("a", (), 0.0).quantile(0.5))


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ([task("a"), task("a")], "different names"),
        ([task("a", "urgent")], "expected a priority"),
        ([task("a", threads=3)], "3 threads cannot run at once on 2 cores"),
        ([task("a", duration=-1.0)], "at least 0 s"),
        ([SimulatedTask("a", "low", ())], "at least 0 s"),
        ([task("a", duration=0.0, gap=0.0)], "both take no time"),
        ([task("a", slower={"b": 0.5})], "factors of at least 1"),
        ([task("a", turn=math.nan)], "at least 0 s"),
    ],
)
def test_mistakes_are_told(wrong, said):
    with pytest.raises(vk.OptionError, match=said):
        simulate(wrong, 2, 1.0)
