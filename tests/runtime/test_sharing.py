"""Which calls go to helpers, and which helpers: short calls stay where they are, and wake nobody."""

import ctypes
import os
import threading
import time

import numpy as np
import pytest

from vkernels.runtime.memory_blocks import Block
from vkernels.runtime.pool import Pool, Waiting, is_native
from vkernels.runtime.work_descriptor import MOST_UNITS, UNIT_SECONDS, NativeLaunch, WorkDescriptor

from .programs import Programs, Slots

pytestmark = pytest.mark.skipif(not is_native(), reason="no native pool here")
PROGRAMS = 64
FOREVER = 1 << 50
UNTOUCHED = -1


@pytest.fixture(scope="module")
def programs():
    return Programs()


@pytest.fixture
def pool():
    pool = Pool(Waiting(spin=0, share=1e-5, wake=1e-3))
    yield pool
    pool.stop()


class Call:
    """A call of `threads` threads that shows whether helpers took part: they write to their workspaces."""

    def __init__(self, programs, threads, seconds):
        self.slots, self.helpers, self.own = Slots(PROGRAMS), Block(64 * (threads - 1)), Block(64)
        launch = NativeLaunch(programs.add_one, PROGRAMS)
        self.descriptor = WorkDescriptor([launch], self.slots.address, threads, 64, self.helpers)
        self.descriptor.set_workspace(self.own.address)
        self.descriptor.set_seconds(seconds)
        self.words = np.ctypeslib.as_array((ctypes.c_int64 * (8 * threads - 8)).from_address(self.helpers.address))
        self.words[:] = UNTOUCHED

    def run(self, pool):
        before = self.slots.counts.copy()
        pool.run(self.descriptor)
        assert (self.slots.counts == before + 1).all()

    @property
    def was_shared(self):
        return bool((self.words != UNTOUCHED).any())


def until_asleep(pool, helpers):
    until = time.monotonic() + 30
    while pool.asleep < helpers and time.monotonic() < until:
        time.sleep(0.001)
    assert pool.asleep == helpers


def stay_awake(pool):
    """From the next wake-up on, helpers spin; calls count as close together."""
    pool._words[34] = FOREVER


def test_a_short_call_stays_on_its_thread(pool, programs):
    pool.reserve(2)
    stay_awake(pool)
    call = Call(programs, 2, 1e-6)
    for _ in range(2000):
        call.run(pool)
    assert not call.was_shared


def test_a_call_that_does_not_pay_for_a_wake_up_wakes_nobody(pool, programs):
    pool.reserve(2)
    until_asleep(pool, 1)
    call = Call(programs, 2, 9e-4)
    call.run(pool)
    assert (pool.asleep, call.was_shared) == (1, False)


def test_a_call_that_pays_for_it_wakes_helpers(pool, programs):
    pool.reserve(2)
    until_asleep(pool, 1)
    stay_awake(pool)
    Call(programs, 2, 1e-3).run(pool)
    assert pool.asleep == 0


def test_calls_that_pay_for_it_together_wake_helpers(pool, programs):
    pool.reserve(2)
    until_asleep(pool, 1)
    stay_awake(pool)
    call = Call(programs, 2, 1e-4)
    call.run(pool)
    assert (pool.asleep, call.was_shared) == (1, False)
    until, calls = time.monotonic() + 30, 1
    while pool.asleep and time.monotonic() < until:  # what they take counts, not what they were said to take
        call.run(pool)
        calls += 1
    assert pool.asleep == 0
    assert calls > 2


def test_calls_far_from_each_other_do_not_count_together(pool, programs):
    pool.reserve(2)
    until_asleep(pool, 1)
    call = Call(programs, 2, 4e-4)
    for _ in range(10):
        time.sleep(0.003)  # longer than a helper spins and a wake-up costs
        call.run(pool)
    assert (pool.asleep, call.was_shared) == (1, False)


def test_only_the_helpers_that_a_call_wants_are_woken(pool, programs):
    pool.reserve(5)
    until_asleep(pool, 4)
    stay_awake(pool)
    Call(programs, 3, 1.0).run(pool)
    assert pool.asleep == 2
    Call(programs, 5, 1.0).run(pool)
    assert pool.asleep == 0


def test_many_helpers_share_what_tells_that_they_sleep(pool, programs):
    pool.reserve(40)
    until_asleep(pool, 32)
    for threads in (40, 33, 2, 40):
        call = Call(programs, threads, 1.0)
        for _ in range(50):
            call.run(pool)


def test_a_thread_with_one_core_works_alone(pool, programs):
    pool.reserve(2)
    stay_awake(pool)
    call, found = Call(programs, 2, 1.0), []

    def pinned():
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        for _ in range(200):
            call.run(pool)
        found.append(call.was_shared)

    thread = threading.Thread(target=pinned)
    thread.start()
    thread.join()
    assert found == [False]


def test_helpers_run_as_the_main_thread_whoever_starts_them(pool):
    before = set(os.listdir("/proc/self/task"))

    def start():
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        pool.reserve(2)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    until_asleep(pool, 1)
    helpers = set(os.listdir("/proc/self/task")) - before - {str(thread.native_id)}  # its task may end a little later
    policies = {os.sched_getscheduler(int(task)) for task in helpers}
    assert policies == {os.sched_getscheduler(os.getpid())}


@pytest.mark.parametrize("programs_", [1, 3, 1000, (1 << 31) - 1, 1 << 31, 1 << 45])
@pytest.mark.parametrize("seconds", [0.0, 1e-6, 1e-3, 10.0, float("inf")])
def test_units_are_few_enough_to_count_and_large_enough_to_pay(programs_, seconds):
    call = WorkDescriptor([NativeLaunch(0, programs_)], 0, 3, 0, None)
    call.set_seconds(seconds)
    grain = call.launches[0].grain
    units = -(-programs_ // grain)
    assert units < 1 << 31
    assert units <= 3 or units <= seconds / UNIT_SECONDS
    assert grain == 1 or units > min(programs_, seconds / UNIT_SECONDS, MOST_UNITS) / 4
