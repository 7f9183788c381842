"""Who gets the next turn, where, and what follows from its answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vkernels.farm.order import Bounded, Fifo
from vkernels.farm.queue import MAX_ENDED, MAX_LOST, Queue
from vkernels.farm.records import Answer, FarmJob, decoded, encoded
from vkernels.ir.errors import OptionError

from .fake_cluster import ALL, ONE, good, offer, slots, submission


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def queue(clock) -> Queue:
    return Queue("a.db", Bounded(10.0, 1e6, fairness=1.0), clock=clock)


def run(queue, slots, clock, answer=good, rounds=100):
    """Turns as they are handed out, by job, until nothing waits; each takes 10 s."""
    order = []
    for _ in range(rounds):
        turns = queue.next_turns(slots)
        if not turns:
            break
        clock.now += 10
        for turn in turns:
            order.append(turn.job)
            queue.finish(turn.id, answer())
    return order


def test_a_search_gets_turns_until_its_budget_is_spent(queue, clock):
    job = queue.submit("ann", submission(seconds=30.0))
    assert run(queue, slots(), clock) == [1, 1, 1]
    assert job.state == "done"
    assert job.parts[0].served == 30


def test_a_long_job_does_not_block_a_new_one(queue, clock):
    queue.submit("ann", submission("a", seconds=1000.0))
    place = slots(1, offer(cores=[0]))
    run(queue, place, clock, rounds=1)
    queue.submit("ben", submission("b", seconds=20.0))
    assert run(queue, place, clock, rounds=2) == [2, 2]


def test_first_come_first_served_runs_whole_jobs(clock):
    queue = Queue("a.db", Fifo(), clock=clock)
    for kernel in "abc":
        queue.submit("ann", submission(kernel, seconds=40.0))
    place = slots(1, offer(cores=[0]))
    (turn,) = queue.next_turns(place)
    assert turn.request.seconds == 40.0
    queue.finish(turn.id, good(40.0))
    assert run(queue, place, clock, lambda: good(40.0)) == [2, 3]


def test_users_share_what_there_is(queue, clock):
    for kernel in "abcdefgh":
        queue.submit("ann", submission(kernel, seconds=20.0))
    queue.submit("ben", submission("z", seconds=20.0))
    assert 9 in run(queue, slots(1, offer(cores=[0])), clock)[:3]


def test_the_same_is_not_measured_twice_at_once(queue):
    queue.submit("ann", submission())
    queue.submit("ben", submission())
    assert len(queue.next_turns(slots())) == 1


def test_a_wide_slice_waits_for_its_cores_and_nothing_passes_it(queue, clock):
    machine = slots(1, offer(), offer(ALL, 2))
    queue.submit("ann", submission("a", seconds=10.0))
    (narrow,) = queue.next_turns(machine)
    queue.submit("ben", submission("b", slices=[ALL], seconds=5.0))
    queue.submit("ann", submission("c", seconds=1000.0))
    assert queue.next_turns(machine) == []
    queue.finish(narrow.id, good())
    (wide,) = queue.next_turns(machine)
    assert wide.request.slice == ALL
    assert wide.slot.cores == (0, 1)


def test_slots_take_disjoint_cores(queue):
    queue.submit("ann", submission("a", "b", "c"))
    first, second = queue.next_turns(slots(1, offer(), offer(ALL, 2)))
    assert {*first.slot.cores} & {*second.slot.cores} == set()


def test_a_search_stays_with_its_kind_of_device(queue, clock):
    one, other = slots(1, offer(cores=[0])), slots(1, offer(cores=[0], device="another CPU"))
    queue.submit("ann", submission())
    run(queue, one, clock, rounds=1)
    assert queue.next_turns(other) == []
    assert len(queue.next_turns(one)) == 1


def test_only_the_device_that_is_asked_for(queue):
    queue.submit("ann", submission(device="xeon"))
    assert queue.next_turns(slots()) == []
    assert len(queue.next_turns(slots(1, offer(device="A Xeon")))) == 1


def test_a_job_that_kills_its_worker_ends_with_the_reason(queue, clock):
    said = []
    queue.say = lambda job, text: said.append(text)
    job = queue.submit("ann", submission())
    assert len(run(queue, slots(), clock, lambda: Answer(1.0, error="killed by signal 9", kind="ended"))) == MAX_ENDED
    assert job.state == "failed"
    assert "killed by signal 9" in job.parts[0].reason
    assert said


def test_a_lost_turn_is_begun_again_but_not_for_ever(queue):
    job = queue.submit("ann", submission())
    for _ in range(MAX_LOST):
        (turn,) = queue.next_turns(slots())
        queue.lose(turn.id, "gone")
        assert queue.finish(turn.id, good()) is None  # an answer that comes late counts for nothing
    assert job.state == "failed"
    assert job.parts[0].turns == 0


def test_mistakes_end_a_part_and_others_go_on(queue, clock):
    job = queue.submit("ann", submission("a", "b", seconds=10.0))
    first, second = queue.next_turns(slots())
    queue.finish(first.id, Answer(error="no such kernel", kind="user"))
    queue.finish(second.id, good())
    assert [part.state for part in job.parts] == ["failed", "done"]
    assert job.state == "failed"


@pytest.mark.parametrize("kind", ["claimed", "database"])
def test_others_work_and_an_absent_database_only_delay(kind, queue, clock):
    job = queue.submit("ann", submission())
    (turn,) = queue.next_turns(slots())
    queue.finish(turn.id, Answer(error="not now", kind=kind))
    assert queue.next_turns(slots()) == []
    clock.now += 5
    assert len(queue.next_turns(slots())) == 1
    assert job.parts[0].served == 0


def test_nothing_begins_for_a_cancelled_job(queue):
    job = queue.submit("ann", submission("a", "b"))
    (turn,) = queue.next_turns(slots(1, offer(cores=[0])))
    assert queue.cancel(1) == [turn.id]
    queue.finish(turn.id, good())
    assert job.state == "cancelled"
    assert queue.next_turns(slots()) == []


def test_a_process_ended_by_a_cancellation_is_no_crash(clock):
    said = []
    queue = Queue("a.db", Fifo(), clock=clock, say=lambda job, text: said.append(text))
    queue.submit("ann", submission("a"))
    (turn,) = queue.next_turns(slots())
    queue.cancel(1)
    job = queue.finish(turn.id, Answer(2.0, error="killed by signal 9", kind="ended"))
    assert (job.state, job.parts[0].ended, job.parts[0].served) == ("cancelled", 0, 2.0)
    assert said == []


def test_a_search_without_any_time_ends(queue, clock):
    job = queue.submit("ann", submission(seconds=None, plans=100))
    run(queue, slots(), clock, lambda: Answer(10.0, 0, 0, stopped="seconds", used=10.0))
    assert job.state == "failed"


@pytest.mark.parametrize("budget", [4.0, 16.0, 1000.0])
@pytest.mark.parametrize("is_fifo", [True, False], ids=["fifo", "bounded"])
def test_turns_too_short_for_any_time_get_longer(budget, is_fifo, clock):
    queue = Queue("a.db", Fifo() if is_fifo else Bounded(4.0, 1e6), clock=clock)
    job = queue.submit("ann", submission(seconds=budget))
    lengths = []
    for _ in range(2):
        (turn,) = queue.next_turns(slots())
        lengths.append(turn.request.seconds)
        queue.finish(turn.id, Answer(lengths[-1], stopped="seconds", used=lengths[-1]))
    (turn,) = queue.next_turns(slots())
    assert min(lengths) >= 4.0
    assert lengths[1] >= 2 * lengths[0]
    assert turn.request.seconds >= 2 * lengths[1]
    queue.finish(turn.id, good(turn.request.seconds))
    assert job.parts[0].best is not None
    if budget < 1000 or is_fifo:
        assert job.state == "done"
    else:
        (turn,) = queue.next_turns(slots())
        assert turn.request.seconds == 4.0


def test_numbers_of_plans_end_a_search(queue, clock):
    job = queue.submit("ann", submission(seconds=None, plans=5))
    assert run(queue, slots(), clock) == [1]
    assert job.state == "done"


def test_a_restarted_head_goes_on(queue, clock):
    queue.submit("ann", submission("a", "b"))
    clock.now = 50
    turns = queue.next_turns(slots())
    job = queue.finish(turns[0].id, good())
    kept = decoded(encoded(job), FarmJob, "a job")
    clock.now = 7  # another clock, or one that has jumped
    again = Queue("a.db", clock=clock)
    again.load([kept])
    assert again.waited(again.jobs[1]) == pytest.approx(50)
    assert sorted(turn.part for turn in again.next_turns(slots())) == [0, 1]
    assert again.submit("ben", submission()).number == 2


def order_of_turns(wall: Callable[[], float]) -> list[int]:
    """The jobs that turns are for, under a time of day."""
    clock = Clock()
    queue = Queue("a.db", Bounded(10.0, 300.0, fairness=1.0), clock=clock)
    place, order = slots(1, offer(cores=[0])), list[int]()
    with patch("time.time", wall):
        for user in "abc":
            queue.submit(f"user {user}", submission("a", "b", seconds=40.0))
            order += run(queue, place, clock, rounds=3)
        return order + run(queue, place, clock)


@settings(max_examples=20)
@given(jumps=st.lists(st.floats(-1e9, 1e10), min_size=1))
def test_a_time_of_day_that_jumps_changes_nothing(jumps):
    readings = itertools.cycle(jumps)
    assert order_of_turns(lambda: next(readings)) == order_of_turns(lambda: 1.7e9)


def test_a_budget_is_needed(queue):
    with pytest.raises(OptionError, match="budget"):
        queue.submit("ann", submission(seconds=None))


def test_the_slice_is_needed(queue):
    queue.submit("ann", submission(slices=["cpu:cores=7"]))
    assert queue.next_turns(slots()) == []
    assert slots()[0].offer.slice == ONE
