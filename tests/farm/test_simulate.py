"""Whatever the policy, a farm loses no work and uses no slot twice; each policy keeps what it promises."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vkernels.farm.history import History
from vkernels.farm.jobs import Job
from vkernels.farm.order import Bounded, Fifo, Qssf, Sjf, Srtf
from vkernels.farm.simulate import simulate
from vkernels.ir.errors import OptionError

from .drawn import MOST_CORES, policies, traces


def job(arrival, seconds, user="a", cores=1, kind="k", gain=1.0):
    return Job(arrival, seconds, user, (kind,), cores, gain)


@given(traces(), policies(), st.integers(MOST_CORES, 6))
def test_the_work_done_is_the_work_submitted(jobs, policy, cores):
    outcome = simulate(jobs, cores, policy)
    for number, each in enumerate(jobs):
        turns = [turn for turn in outcome.turns if turn.job == number]
        assert sum(turn.end - turn.start for turn in turns) == pytest.approx(each.seconds)
        assert all(len(set(turn.slots)) == each.cores for turn in turns)
        assert turns[0].start >= each.arrival
        assert outcome.ends[number] == max(turn.end for turn in turns)


@given(traces(), policies(), st.integers(MOST_CORES, 6))
def test_no_slot_is_used_twice_and_no_job_runs_beside_itself(jobs, policy, cores):
    outcome = simulate(jobs, cores, policy)
    groups = [[turn for turn in outcome.turns if slot in turn.slots] for slot in range(cores)]
    groups += [[turn for turn in outcome.turns if turn.job == number] for number in range(len(jobs))]
    for turns in groups:
        assert all(before.end <= after.start for before, after in pairwise(turns))
    assert {slot for turn in outcome.turns for slot in turn.slots} <= set(range(cores))


@given(traces(), policies())
def test_a_core_is_never_idle_while_a_job_that_needs_one_waits(jobs, policy):
    jobs = [Job(each.arrival, each.seconds, each.user, each.kind) for each in jobs]
    now = 0.0
    for turn in simulate(jobs, 1, policy).turns:
        assert turn.start == now or all(each.arrival >= turn.start for each in jobs if each.arrival > now)
        now = turn.end


@given(traces())
def test_first_come_is_first_served(jobs):
    starts = [turn.start for turn in sorted(simulate(jobs, MOST_CORES, Fifo()).turns, key=lambda turn: turn.job)]
    assert starts == sorted(starts)


@given(traces())
def test_shortest_remaining_first_has_the_least_mean_on_one_core(jobs):
    jobs = [Job(0.0, each.seconds, each.user, each.kind) for each in jobs]
    best = simulate(jobs, 1, Srtf(turn=3.0))
    assert best.mean == pytest.approx(np.cumsum(sorted(each.seconds for each in jobs)).mean())


@given(traces(), st.floats(0, 1.5))
def test_a_bound_that_first_come_first_served_keeps_is_kept(jobs, slack):
    """Durations known, one core: running in the order of arrival stays possible after every turn."""
    jobs = [Job(each.arrival, each.seconds, each.user, each.kind) for each in jobs]
    longest = float(simulate(jobs, 1, Fifo()).completions.max())
    policy = Bounded(turn=3.0, bound=(1 + slack) * longest, is_oracle=True)
    assert simulate(jobs, 1, policy).completions.max() <= policy.bound + 1e-6


def test_a_long_job_waits_no_longer_than_the_bound():
    jobs = [job(0.0, 100.0), *(job(float(number), 5.0) for number in range(0, 1000, 5))]
    jobs.sort(key=lambda each: each.arrival)
    starved = simulate(jobs, 1, Srtf(turn=5.0)).completions
    kept = simulate(jobs, 1, Bounded(turn=5.0, bound=400.0, is_oracle=True)).completions
    assert starved.max() >= 1000
    assert kept.max() <= 400
    assert kept.mean() < simulate(jobs, 1, Fifo()).completions.mean()


def test_published_policies_choose_by_duration_and_by_service():
    jobs = [job(0.0, 50.0, cores=2), job(1.0, 9.0, cores=2), job(2.0, 10.0, cores=1)]
    assert [turn.job for turn in simulate(jobs, 2, Sjf()).turns] == [0, 1, 2]
    past = [job(0.0, 9.0, kind="x"), job(20.0, 10.0, kind="y"), job(40.0, 30.0, kind="z")]
    waiting = [job(41.0, 9.0, cores=2, kind="x"), job(42.0, 10.0, kind="y")]
    assert [turn.job for turn in simulate([*past, *waiting], 2, Qssf()).turns][-2:] == [4, 3]


def test_what_gains_more_goes_first():
    jobs = [job(0.0, 10.0), job(1.0, 10.0), job(2.0, 10.0, gain=5.0)]
    outcome = simulate(jobs, 1, Bounded(turn=100.0, bound=1e6, is_oracle=True))
    assert [turn.job for turn in outcome.turns] == [0, 2, 1]


def test_a_user_of_many_short_jobs_does_not_keep_another_waiting():
    jobs = sorted(
        [*(job(float(at), 2.0, "many") for at in range(0, 400, 2)), job(10.0, 20.0, "one")],
        key=lambda each: each.arrival,
    )
    alone = [each.user == "one" for each in jobs]
    greedy, fair = (
        simulate(jobs, 1, Bounded(turn=2.0, bound=1e6, fairness=fairness, is_oracle=True)).completions[alone].max()
        for fairness in (0.0, 4.0)
    )
    assert greedy > 300
    assert fair < 100


def test_a_prediction_reads_no_duration_but_those_of_jobs_that_ended():
    jobs = [job(float(number), 10.0 + number % 3) for number in range(20)]
    changed = [*jobs[:-1], job(19.0, 999.0)]
    policy = Bounded(turn=5.0, bound=1e6)
    one, other = (simulate(each, 1, policy).predicted for each in (jobs, changed))
    assert one.tolist() == other.tolist()


def test_history_learns_kinds_and_users():
    history = History()
    for _ in range(50):
        history.add(job(0.0, 10.0, "a", kind="short"))
        history.add(job(0.0, 100.0, "a", kind="long"))
        history.add(job(0.0, 300.0, "b", kind="long"))
    assert history.predict(job(0.0, 1.0, "c", kind="short")) < 20
    assert history.predict(job(0.0, 1.0, "a", kind="long")) == pytest.approx(100, rel=0.2)
    assert history.predict(job(0.0, 1.0, "b", kind="long")) == pytest.approx(300, rel=0.2)
    assert 100 < history.predict(job(0.0, 1.0, "c", kind="new")) < 180


@pytest.mark.parametrize(
    ("jobs", "cores", "policy", "message"),
    [
        ([], 1, Fifo(), "no job"),
        ([job(0.0, 1.0)], 0, Fifo(), "at least 1 core"),
        ([job(0.0, 1.0), job(0.0, 1.0, cores=3)], 2, Fifo(), "job 2 needs 3 cores; the farm has 2"),
        ([job(1.0, 1.0), job(0.0, 1.0)], 1, Fifo(), "order of arrival"),
        ([job(0.0, 1.0)], 1, Srtf(turn=0.0), "turn"),
    ],
)
def test_mistakes(jobs, cores, policy, message):
    with pytest.raises(OptionError, match=message):
        simulate(jobs, cores, policy)
