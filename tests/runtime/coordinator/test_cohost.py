"""Tasks run side by side while what they need fits and pays, else in turns; the clock of these tests is a counter."""

import random
import threading
import time
from itertools import pairwise

import pytest

from tests.library.reference import fresh_seed
from vkernels.runtime.coordinator import cohost
from vkernels.runtime.coordinator.cohost import EPOCH, LEASE, RETRY, START, CoHost, Way, scarcest


class Clock:
    """Goes on a little when it is read, and while a task waits. In place of a condition variable."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        self.now += 1e-6
        return self.now

    def wait(self, seconds):
        self.now += seconds

    def notify_all(self):
        pass

    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


class Kind:
    def __init__(self, key, memory=0.3, whole=1e-3, is_ready=True):
        self.name, self.key, self.memory, self.whole, self.is_ready = f"kernel {key}", key, memory, whole, is_ready

    def needs(self, tasks):
        return {"cores": 1 / tasks, "memory": self.memory} if self.is_ready else None


class Tasks:
    """Tasks that call in turn, of this thread: each call takes as long as it is said to."""

    def __init__(self, count):
        self.clock = Clock()
        self.host = CoHost(self.clock)
        self.host._changed = self.clock
        self.tasks = [self.host.enter() for _ in range(count)]

    def call(self, number, kind, seconds):
        """One call of a task; returns its way."""
        task = self.tasks[number]
        lease = task.lease
        if lease is None or lease.version != self.host.version or self.clock() >= lease.until:
            lease = self.host.begin(task, kind)
        self.clock.now += seconds
        task.in_call, task.ended = False, self.clock.now
        if kind.whole is not None:
            lease.took, lease.whole = lease.took + seconds, lease.whole + kind.whole
        return lease.way

    def run(self, kinds, seconds, slower=1.0):
        """Let all call for so long, in turns as often as a turn lets them. Calls side by side take `slower` times as
        long as on all cores."""
        found, until = [], self.clock.now + seconds
        while self.clock.now < until:
            for number, kind in enumerate(kinds):
                task = self.tasks[number]
                while True:
                    beside = task.lease is not None and task.lease.way is Way.BESIDE
                    found.append(self.call(number, kind, kind.whole * (slower if beside else 1)))
                    if found[-1] is not Way.TURN or self.clock.now >= task.lease.until:
                        break
        return found


def test_a_task_by_itself_is_alone():
    tasks = Tasks(2)
    assert set(tasks.run([Kind("a")], 0.1)) == {Way.ALONE}
    assert tasks.host.stats() == ()


def test_tasks_run_side_by_side_while_their_needs_fit():
    tasks = Tasks(2)
    ways = tasks.run([Kind("a", 0.4), Kind("b", 0.5)], 0.05, slower=1.5)
    assert ways[0] is Way.ALONE  # nobody else had called
    assert set(ways[2:]) == {Way.BESIDE}
    (company,) = tasks.host.stats()
    assert company.kernels == ("kernel b", "kernel a")
    assert (company.what, company.needed, company.is_beside) == ("cores", 1.0, True)
    assert company.gain == pytest.approx(4 / 3)


def test_tasks_take_turns_where_their_needs_do_not_fit():
    tasks = Tasks(2)
    kinds = [Kind("a", 0.9), Kind("b", 0.9)]
    tasks.run(kinds, 0.01)
    assert set(tasks.run(kinds, RETRY / 3)) == {Way.TURN}
    (company,) = tasks.host.stats()
    assert (company.what, company.needed) == ("memory", pytest.approx(1.8))
    assert company.oversubscription == START


def test_more_than_all_is_allowed_while_it_pays():
    tasks = Tasks(2)
    kinds = [Kind("a", 0.9), Kind("b", 0.9)]
    tasks.run(kinds, 6 * RETRY, slower=1.2)
    ways = tasks.run(kinds, 2 * RETRY, slower=1.2)
    assert ways.count(Way.BESIDE) > 0.9 * len(ways)  # but for looking at turns again
    (company,) = tasks.host.stats()
    assert company.oversubscription == pytest.approx(company.needed - 1 + cohost.BOUND)
    assert company.gain == pytest.approx(2 / 1.2, rel=0.05)


def test_what_does_not_pay_side_by_side_takes_turns_and_is_tried_again():
    tasks = Tasks(2)
    kinds = [Kind("a", 0.2), Kind("b", 0.2)]
    tasks.run(kinds, 20 * EPOCH, slower=2.5)
    ways = tasks.run(kinds, 10 * RETRY, slower=2.5)
    assert 0 < ways.count(Way.BESIDE) < 0.2 * len(ways)
    assert tasks.host.stats()[0].gain == pytest.approx(2 / 2.5, rel=0.01)


def test_what_changing_over_costs_counts_against_turns():
    tasks = Tasks(2)
    kinds = [Kind("a", 0.9), Kind("b", 0.9)]
    begin = tasks.host.begin

    def slowly(task, kind):
        lease = begin(task, kind)
        tasks.clock.now += 0.5 * LEASE if lease.way is Way.TURN else 0
        return lease

    tasks.host.begin = slowly
    tasks.run(kinds, 6 * RETRY, slower=2.2)
    (company,) = tasks.host._companies.values()
    assert 0.3 < company.turned < 0.8
    assert company.gain == pytest.approx(2 / 2.2 / company.turned, rel=0.1)
    assert company.fits


def test_tasks_side_by_side_take_turns_now_and_then_to_learn_how_long_calls_take_so():
    tasks = Tasks(2)
    kinds = [Kind("a", 0.2), Kind("b", 0.2)]
    tasks.run(kinds, cohost.PROBE / 2)
    ways = tasks.run(kinds, 20.0)
    assert 0 < ways.count(Way.TURN) < 0.02 * len(ways)
    assert 3 <= sum(way is Way.TURN and before is Way.BESIDE for before, way in pairwise(ways)) <= 30


def test_calls_of_which_nothing_is_known_take_turns():
    for other in (Kind("b", is_ready=False), Kind("b")):
        tasks = Tasks(2)
        if other.is_ready:
            other.whole = None
        first = Kind("a")
        for _ in range(100):
            ways = {tasks.call(0, first, 1e-3), tasks.call(1, other, 1e-3)}
        assert ways == {Way.TURN}
        assert tasks.host.stats() == ()


def test_who_had_less_goes_first():
    """A task whose turn is over waits for one that waits for its own, and had less."""
    tasks, order = Tasks(2), []
    first, second = tasks.tasks
    kinds = [Kind("a", 0.9), Kind("b", 0.9)]
    tasks.run(kinds, 0.02)
    second.kind, second.waits, first.used = kinds[1], True, second.used + LEASE
    first.lease = None

    def wait(seconds):
        assert not order  # it waits no longer than until the other had its turn
        order.append(tasks.call(1, kinds[1], LEASE))

    tasks.clock.wait = wait
    order.append(tasks.call(0, kinds[0], 1e-3))
    assert order == [Way.TURN, Way.TURN]
    assert second.used >= first.used - LEASE


def test_a_newcomer_has_had_no_less_than_others():
    tasks = Tasks(2)
    tasks.run([Kind("a")], 1.0)
    tasks.call(1, Kind("b"), 1e-3)
    tasks.call(1, Kind("b"), 1e-3)
    assert tasks.tasks[1].used > 0.9


def test_tasks_have_the_lowest_free_numbers():
    tasks = Tasks(3)
    tasks.host.leave(tasks.tasks[1])
    assert [tasks.host.enter().slot for _ in range(2)] == [1, 3]


def test_scarcest_is_what_most_is_needed_of():
    assert scarcest([{"cores": 0.5, "memory": 0.2}, {"cores": 0.5, "memory": 0.9}]) == ("memory", pytest.approx(1.1))
    assert scarcest([]) == ("", 0.0)


@pytest.mark.parametrize("memory", [0.2, 0.9])
def test_no_task_waits_forever_and_turns_do_not_overlap(memory):
    """Threads that enter, call kinds at random, and leave."""
    seed, host, failures, turns, lock = fresh_seed(), CoHost(), [], [], threading.Lock()
    kinds = [Kind(str(number), memory, 1e-5) for number in range(4)]

    def work(number):
        chance = random.Random(f"{seed} {number}")
        for _ in range(5):
            task = host.enter()
            for _ in range(chance.randrange(1, 40)):
                lease = task.lease
                if lease is None or lease.version != host.version or time.perf_counter() >= lease.until:
                    lease = host.begin(task, chance.choice(kinds))
                    if lease.way is Way.TURN:
                        with lock:
                            turns.append(task)
                        if turns != [task]:
                            failures.append(number)
                        with lock:
                            turns.remove(task)
                else:
                    task.in_call = True
                task.in_call, task.ended = False, time.perf_counter()
            host.leave(task)

    threads = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert failures == []
    assert host._tasks == []


def test_a_lease_is_longer_than_its_look_at_who_waits():
    assert cohost.PATIENCE < LEASE < EPOCH < RETRY
