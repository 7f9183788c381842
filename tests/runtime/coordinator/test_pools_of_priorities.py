"""Calls of every priority run each program once; those of lower priority give way, and never stop for good."""

import ctypes
import os
import random
import threading
import time

import pytest

from tests.library.reference import fresh_seed
from tests.runtime.programs import Programs, Slots
from vkernels.runtime.coordinator.board import Board
from vkernels.runtime.memory_blocks import Block
from vkernels.runtime.pool import Pool, is_native, this_thread
from vkernels.runtime.pool_board_ir import BELLS, ENTRIES, HIGH, LOW, NORMAL, PAUSED, RINGS
from vkernels.runtime.pool_gate_ir import PAUSE_SECONDS
from vkernels.runtime.work_descriptor import UNKNOWN, NativeLaunch, WorkDescriptor

pytestmark = pytest.mark.skipif(not is_native(), reason="no native pool here")
Launch = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
IDLE = getattr(os, "SCHED_IDLE", 5)
BEGUN = 36
"""A pool's word that counts its helpers that have begun."""


@pytest.fixture(scope="module")
def programs():
    return Programs()


class Pools:
    """Pools of all priorities for so many cores."""

    def __init__(self, cores=2, threads=3):
        self.pool, self.board = Pool(), Board(cores)
        self.pool.reserve(threads)
        self.pool.separate(self.board.address)
        self.pool.reserve_for(LOW, threads)
        self.pool.reserve_for(HIGH, threads)

    def run(self, call, priority):
        self.board.put(this_thread(), priority)
        try:
            self.pool.run(call)
        finally:
            self.board.put(this_thread(), NORMAL)


@pytest.fixture
def pools():
    pools = Pools()
    yield pools
    pools.pool.stop()


def of_python(work, count, threads, grain=1):
    """A call of programs in Python, which are given their numbers; the second result must be kept."""
    function = Launch(lambda _, begin, end, workspace: [work(p) for p in range(begin, end)] and None)
    launch = NativeLaunch(ctypes.cast(function, ctypes.c_void_p).value, count, grain)
    helpers = Block(64 * max(1, threads - 1))
    return WorkDescriptor([launch], 0, threads, 64, helpers), (function, helpers)


def is_true_within(seconds, holds):
    """Whether it holds at some moment of the next so many seconds."""
    until = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > until:
            return False
        time.sleep(0.001)
    return True


def gives_way(pools, priority, done):
    """Whether work of this priority pauses, and then appends to `done` at most once after each of the longest pauses.

    Time alone does not tell: on a busy machine a turn that has begun takes as long as the machine wants.
    """
    if not is_true_within(120, lambda: pools.board._words[BELLS + 8 * priority + PAUSED]):
        return False
    start, before = time.monotonic(), len(done)
    time.sleep(0.02)
    turns = len(done) - before
    return turns <= 1 + (time.monotonic() - start) // PAUSE_SECONDS


@pytest.mark.parametrize("priority", [LOW, NORMAL, HIGH])
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000, 100_003])
def test_every_program_runs_once(pools, programs, count, threads, priority):
    slots, helpers, own = Slots(count), Block(64 * threads), Block(64)
    launches = [NativeLaunch(programs.add_one, count)] * 3
    call = WorkDescriptor(launches, slots.address, threads, 64, helpers)
    call.set_workspace(own.address)
    pools.run(call, priority)
    pools.run(call, priority)
    assert (slots.counts == 6).all()


@pytest.mark.parametrize("priority", [LOW, NORMAL, HIGH])
@pytest.mark.parametrize("seconds", [1e-6, 1e-3, 1.0])
def test_a_launch_begins_when_the_one_before_is_complete(pools, programs, priority, seconds):
    number = 300
    slots = Slots(number)
    launches = [NativeLaunch(programs.add_one, number), NativeLaunch(programs.sum_all, number)] * 3
    call = WorkDescriptor(launches, slots.address, 3, 0, None)
    call.set_seconds(seconds)
    for repeat in range(1, 21):
        pools.run(call, priority)
        assert (slots.counts == 3 * repeat).all()
        assert (slots.sums == 3 * repeat * number).all()


def test_helpers_run_as_their_priority_says(pools):
    """A caller of low priority keeps its own class: it may hold a lock that others need."""
    before = os.sched_getscheduler(0)
    assert is_true_within(120, lambda: pools.pool._others[LOW]._words[BEGUN])  # the caller would run its call itself
    for priority in (LOW, NORMAL, HIGH):
        found = set()
        call, _kept = of_python(lambda p, found=found: found.add(os.sched_getscheduler(0)), 64, 3)
        pools.run(call, priority)
        assert found == ({IDLE} if priority == LOW else {before})
        assert pools.board.stats(priority).handed_over == (priority == LOW)
    assert os.sched_getscheduler(0) == before


def test_a_short_call_of_low_priority_stays_with_its_caller(pools):
    found = set()
    call, _kept = of_python(lambda p: found.add(threading.get_native_id()), 8, 2)
    call.set_seconds(1e-6)
    pools.run(call, LOW)
    assert found == {threading.get_native_id()}


def test_no_helper_of_another_class_does_the_work_of_an_idle_thread():
    """Helpers run as the main thread does: work that should wait for all else must not get there through them."""
    if os.sched_getscheduler(0) == IDLE:
        pytest.skip("all threads run at idle priority here")
    pool, found = Pool(), set()
    pool.reserve(3)
    call, _kept = of_python(lambda p: found.add(os.sched_getscheduler(0)), 200, 3)

    def idle():
        os.sched_setscheduler(0, IDLE, os.sched_param(0))
        for _ in range(5):
            pool.run(call)

    thread = threading.Thread(target=idle)
    thread.start()
    thread.join()
    assert found == {IDLE}
    found.clear()
    pool.run(call)
    assert IDLE not in found  # and helpers are none the worse for it
    pool.stop()


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(("lower", "higher"), [(LOW, NORMAL), (LOW, HIGH), (NORMAL, HIGH)])
def test_work_gives_way_at_the_end_of_a_turn(lower, higher, is_first):
    """With one core, at most the turn that has begun goes on while a call of higher priority runs; also where the work
    began before the call's thread had a priority, or any thread (`is_first` is false)."""
    pools, done, is_begun, during = Pools(cores=1), [], threading.Event(), []

    def slow(p):
        is_begun.set()
        time.sleep(0.002)
        done.append(p)

    def first(_):
        during.append(gives_way(pools, lower, done))

    long_call, _kept = of_python(slow, 100, 1)
    short_call, _kept_too = of_python(first, 1, 1)
    thread = threading.Thread(target=pools.run, args=(long_call, lower))
    if is_first:
        pools.board.put(this_thread(), higher)
    thread.start()
    assert is_begun.wait(30)
    pools.run(short_call, higher)
    thread.join(60)
    assert not thread.is_alive()
    assert sorted(done) == list(range(100))
    assert during == [True]
    pools.pool.stop()


def threads_of_this_process():
    return set(os.listdir("/proc/self/task"))


def assert_threads_end(before):
    """Only threads of before are left: the system lists one for a moment after it was joined."""
    assert is_true_within(30, lambda: threads_of_this_process() <= before)


@pytest.mark.parametrize("has_bell", [True, False])
@pytest.mark.parametrize(("lower", "higher"), [(LOW, NORMAL), (LOW, HIGH), (NORMAL, HIGH)])
def test_paused_threads_go_on_when_the_call_is_over(lower, higher, has_bell):
    """Through the bell, which never takes the core from the thread whose call ends; without one, at once."""
    before = threads_of_this_process()
    pools = Pools(cores=1)
    if not has_bell:
        pools.pool.stop()
    is_begun, is_paused = threading.Event(), threading.Event()

    def bell(word):
        return pools.board._words[BELLS + 8 * lower + word]

    def wait_for_pause(_):
        is_begun.set()
        while not bell(PAUSED):
            time.sleep(0.001)
        is_paused.set()

    first, _kept = of_python(wait_for_pause, 1, 1)
    other, _kept_too = of_python(lambda p: None, 4, 1)
    other.set_seconds(1e-4)  # it stays with its caller
    thread = threading.Thread(target=pools.run, args=(first, higher))
    thread.start()
    assert is_begun.wait(30)
    pools.run(other, lower)
    thread.join(60)
    assert is_paused.is_set()
    assert bell(PAUSED) == 0
    pools.pool.stop()
    assert bell(RINGS) > 0
    assert_threads_end(before)
    counted = pools.board.stats(lower)
    assert (counted.calls, counted.handed_over) == (1, 0)
    assert counted.pauses >= 1
    assert 0 < counted.paused_seconds <= counted.seconds
    assert pools.board.stats(higher).calls == 1
    assert pools.board.stats(higher).pauses == 0


def test_bells_take_no_core_from_others():
    before = threads_of_this_process()
    pools = Pools()
    found = [os.sched_getscheduler(int(thread)) for thread in threads_of_this_process() - before]
    end = time.monotonic() + 30
    while found.count(os.SCHED_BATCH) < 1 and found.count(IDLE) < len(found) and time.monotonic() < end:
        time.sleep(0.01)
        found = [os.sched_getscheduler(int(thread)) for thread in threads_of_this_process() - before]
    assert os.SCHED_BATCH in found or set(found) == {IDLE}  # the latter where this process itself is in the idle class
    assert IDLE in found
    pools.pool.stop()


def test_a_call_on_one_thread_learns_how_long_it_takes(pools):
    """Then a short call no longer looks for priorities while nobody has one."""
    call, _kept = of_python(lambda p: None, 1, 1)
    assert call.nanoseconds == UNKNOWN
    pools.pool.run(call)
    assert 0 < call.nanoseconds < 60e9


def test_low_work_goes_on_beside_endless_calls_of_high_priority():
    """A paused thread takes a turn after a while: bounded in `pool_gate_ir`."""
    pools, is_over = Pools(cores=1), threading.Event()

    def forever():
        endless, _kept = of_python(lambda p: is_over.wait(120), 1, 1)
        pools.run(endless, HIGH)

    thread = threading.Thread(target=forever)
    thread.start()
    done = []
    call, _kept = of_python(done.append, 3, 1)
    pools.run(call, LOW)
    assert len(done) == 3
    is_over.set()
    thread.join(60)
    pools.pool.stop()


@pytest.mark.parametrize("changes", [2000, pytest.param(1_000_000, marks=pytest.mark.thorough)])
def test_no_wake_up_is_lost_however_priorities_change(programs, changes):
    """Threads that call with random priorities, numbers of threads and of programs."""
    pools, seed, failures = Pools(cores=2, threads=3), fresh_seed(), []

    def caller(number):
        chance = random.Random(f"{seed} {number}")
        sizes = [1, 5, 60, 2000]
        kept = [(slots := Slots(size), size) for size in sizes]
        calls = [
            (slots, WorkDescriptor([NativeLaunch(programs.add_one, size)] * 2, slots.address, 3, 0, None))
            for slots, size in kept
        ]
        counts = [0] * len(calls)
        for _ in range(changes // 4):
            at = chance.randrange(len(calls))
            slots, call = calls[at]
            call.set_threads(chance.choice([1, 2, 3]))
            call.set_seconds(chance.choice([1e-7, 1e-5, 1e-3, float("inf")]))
            pools.run(call, chance.choice([LOW, NORMAL, HIGH]))
            counts[at] += 2
            if not (slots.counts == counts[at]).all():
                failures.append((number, at))

    callers = [threading.Thread(target=caller, args=(number,), daemon=True) for number in range(4)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join(120 + changes / 1000)
        assert not thread.is_alive()
    assert failures == []
    pools.pool.stop()


def test_a_board_has_room_for_many_threads_and_refuses_more():
    from vkernels.ir.errors import SetupError

    board = Board(2)
    for thread in range(1, ENTRIES + 1):
        board.put(thread, LOW)
    with pytest.raises(SetupError, match="priority"):
        board.put(ENTRIES + 1, HIGH)
    board.put(7, NORMAL)
    board.put(ENTRIES + 1, HIGH)
    board.put(ENTRIES + 1, LOW)
    for thread in range(1, ENTRIES + 2):
        board.put(thread, NORMAL)
    assert board._words[0] == 0
