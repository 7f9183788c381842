"""Every program runs exactly once, in order of launches, whatever the threads do."""

import ast
import ctypes
import os
import platform
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from vkernels.runtime.memory_blocks import Block
from vkernels.runtime.pool import Pool, Waiting, is_native
from vkernels.runtime.pool_wait_ir import FUTEX
from vkernels.runtime.python_pool import PythonPool
from vkernels.runtime.work_descriptor import NativeLaunch, WorkDescriptor

from .programs import Programs, Slots

POOLS = [pytest.param(Pool, marks=pytest.mark.skipif(not is_native(), reason="no native pool here")), PythonPool]


@pytest.fixture(scope="module")
def programs():
    return Programs()


@pytest.fixture(params=POOLS)
def pool(request):
    pool = request.param()
    yield pool
    pool.stop()


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("count", [0, 1, 2, 7, 1000, 100_003])
def test_every_program_runs_once(pool, programs, count, threads):
    slots = Slots(count)
    pool.reserve(threads)
    pool.run(WorkDescriptor([NativeLaunch(programs.add_one, count)], slots.address, threads, 0, None))
    assert (slots.counts == 1).all()


@pytest.mark.parametrize("grain", [1, 3, 64, 1000])
def test_a_call_can_be_repeated_with_any_grain(pool, programs, grain):
    slots = Slots(777)
    pool.reserve(4)
    call = WorkDescriptor([NativeLaunch(programs.add_one, 777, grain)], slots.address, 4, 0, None)
    for _ in range(200):
        pool.run(call)
    assert (slots.counts == 200).all()


def test_a_launch_begins_when_the_one_before_is_complete(pool, programs):
    number = 300
    slots = Slots(number)
    pool.reserve(4)
    launches = [NativeLaunch(programs.add_one, number), NativeLaunch(programs.sum_all, number)] * 3
    call = WorkDescriptor(launches, slots.address, 4, 0, None)
    for repeat in range(1, 51):
        pool.run(call)
        assert (slots.counts == 3 * repeat).all()
        assert (slots.sums == 3 * repeat * number).all()


def test_each_thread_has_a_workspace_of_its_own(pool, programs):
    threads, number = 6, 5000
    slots, helpers, own = Slots(number), Block(64 * (threads - 1)), Block(64)
    pool.reserve(threads)
    call = WorkDescriptor([NativeLaunch(programs.add_one, number)], slots.address, threads, 64, helpers)
    call.set_workspace(own.address)
    for _ in range(20):
        pool.run(call)
    assert (slots.counts == 20).all()


def test_threads_that_were_asked_for_too_few_do_no_harm(pool, programs):
    """A call may want more threads than there are, or fewer."""
    slots = Slots(1000)
    pool.reserve(3)
    for threads in (1, 2, 3, 5):
        pool.run(WorkDescriptor([NativeLaunch(programs.add_one, 1000)], slots.address, threads, 0, None))
    assert (slots.counts == 4).all()


def test_calls_from_many_python_threads_at_once(pool, programs):
    pool.reserve(3)
    failures: list[str] = []

    def caller(number):
        slots = Slots(100 + number)
        call = WorkDescriptor([NativeLaunch(programs.add_one, 100 + number)] * 2, slots.address, 3, 0, None)
        for repeat in range(300):
            pool.run(call)
            if not (slots.counts == 2 * (repeat + 1)).all():
                failures.append(f"caller {number}, repeat {repeat}")

    callers = [threading.Thread(target=caller, args=(number,)) for number in range(6)]
    for thread in callers:
        thread.start()
    for thread in callers:
        thread.join()
    assert failures == []


def test_helpers_that_sleep_are_woken(pool, programs):
    slots = Slots(64)
    pool.reserve(3)
    call = WorkDescriptor([NativeLaunch(programs.add_one, 64)], slots.address, 3, 0, None)
    for _ in range(10):
        pool.run(call)
        threading.Event().wait(0.003)  # longer than they spin
    assert (slots.counts == 10).all()


@pytest.mark.skipif(not is_native(), reason="no native pool here")
@pytest.mark.parametrize("spin", [0, 1e-9, 1e-6])
def test_no_wake_up_is_lost_however_short_they_spin(programs, spin):
    pool = Pool(Waiting(spin, spin))
    pool.reserve(4)
    slots = Slots(40)
    call = WorkDescriptor([NativeLaunch(programs.add_one, 40)] * 3, slots.address, 4, 0, None)
    for _ in range(5000):
        pool.run(call)
    pool.stop()
    assert (slots.counts == 3 * 5000).all()


@pytest.mark.skipif(not is_native(), reason="no native pool here")
def test_who_is_woken_too_late_says_again_that_it_sleeps(programs):
    pool = Pool(Waiting(spin=1e-5))
    pool.reserve(2)
    slots = Slots(64)
    pool.run(WorkDescriptor([NativeLaunch(programs.add_one, 64)], slots.address, 2, 0, None))
    assert comes_to_sleep(pool)
    for _ in range(20):  # what a caller does that was held up between its call and waking
        pool._words[8] = 0
        wake(pool._address)
        assert comes_to_sleep(pool), "the helper sleeps, and nobody knows"
    pool.stop()


@pytest.mark.skipif(not is_native(), reason="no native pool here")
def test_calls_that_take_longer_than_said_wake_helpers_the_sooner(programs):
    pool = Pool(Waiting(spin=1e-5, share=1e-9, wake=1e-3))
    pool.reserve(2)
    assert comes_to_sleep(pool)
    pool._words[34] = 60 * 10**9  # calls within a minute count together
    slots = Slots(1 << 22)  # takes more than a millisecond
    call = WorkDescriptor([NativeLaunch(programs.add_one, 1 << 22)], slots.address, 2, 0, None)
    call.set_seconds(1e-8)
    pool.run(call)
    assert pool._words[0] == 0, "shared at once"
    pool.run(call)
    assert pool._words[0] == 1, "not shared, although helpers missed enough"
    pool.stop()
    assert (slots.counts == 2).all()


def comes_to_sleep(pool):
    """Wait until the pool's only helper is known to sleep; whether that comes."""
    deadline = time.monotonic() + 20
    while pool.asleep != 1 and time.monotonic() < deadline:
        time.sleep(1e-4)
    return pool.asleep == 1


def wake(address):
    """Wake all threads that sleep on a word: FUTEX_WAKE_PRIVATE."""
    system = ctypes.CDLL(None).syscall
    system(ctypes.c_long(FUTEX[platform.machine()]), ctypes.c_void_p(address), 129, 1 << 30, None, None, 0)


def test_a_stopped_pool_still_runs_calls(pool, programs):
    slots = Slots(100)
    pool.reserve(2)
    pool.stop()
    pool.run(WorkDescriptor([NativeLaunch(programs.add_one, 100)], slots.address, 2, 0, None))
    assert (slots.counts == 1).all()


SCRIPT = """
import os, sys, threading
from vkernels.runtime.work_descriptor import NativeLaunch, WorkDescriptor
from vkernels.runtime.threads import the_pool
from tests.runtime.programs import Programs, Slots
programs = Programs()

def work():
    slots = Slots(5000)
    the_pool().reserve(3)
    the_pool().run(WorkDescriptor([NativeLaunch(programs.add_one, 5000)], slots.address, 3, 0, None))
    return (slots.counts == 1).all()
"""


def run_script(text: str) -> subprocess.CompletedProcess[str]:
    root = os.path.join(os.path.dirname(__file__), *[os.pardir] * 2)
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", SCRIPT + text]  # Python's own, of forks
    return subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_pool_of_its_own():
    done = run_script("""
assert work()
child = os.fork()
if child == 0:
    os._exit(0 if work() and the_pool().helpers == 2 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
assert work()
print("well")
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "well\n", "")


@pytest.mark.parametrize("ending", ["", "sys.exit(0)", "threading.Thread(target=spin, daemon=True).start(); work()"])
def test_the_process_ends_in_peace(ending):
    done = run_script(f"""
def spin():
    while True:
        work()
assert work()
print("well")
{ending}
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "well\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_memory_of_its_own():
    done = run_script("""
import ctypes
from vkernels.runtime.memory_blocks import Block
blocks = [Block(100), Block(4 << 20)]
child = os.fork()
if child == 0:
    for block in blocks:
        ctypes.memset(block.address, 99, block.size)
    os._exit(0)
os.waitpid(child, 0)
print([ctypes.c_uint8.from_address(block.address + 50).value == 99 for block in blocks])
""")
    assert (done.stdout, done.stderr) == ("[False, False]\n", "")


def test_blocks_are_aligned_and_writable():
    import ctypes

    for size in (0, 1, 63, 4096, 1 << 20, 3 << 20):
        block = Block(size)
        assert block.address % 64 == 0
        ctypes.memset(block.address, 7, size)
        assert (np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(block.address)) == 7).all()


@pytest.mark.slow
def test_helpers_keep_off_the_callers_core():
    """A helper that shares the caller's core would leave the others idle."""
    cores = os.sched_getaffinity(0)
    if len(cores) < 2:
        pytest.skip("one core only")
    script = """
import os, time, numpy as np
import vkernels.runtime
from vkernels.library import softmax

before = set(os.listdir("/proc/self/task"))
vkernels.runtime.set_threads(2)
x = np.ones((512, 512), np.float32)
first = min(os.sched_getaffinity(0))
everywhere = os.sched_getaffinity(0)
softmax(x)
os.sched_setaffinity(0, {first})  # the caller stays on one core
softmax(x)
os.sched_setaffinity(0, everywhere)

def masks():
    for thread in set(os.listdir("/proc/self/task")) - before:
        try:
            yield os.sched_getaffinity(int(thread))
        except ProcessLookupError:
            pass  # a thread that stored the code has ended

# A helper that was not woken in time, on a busy machine, has not moved yet: call until one has.
until = time.monotonic() + 30
while not any(len(mask) == len(everywhere) - 1 for mask in masks()) and time.monotonic() < until:
    for core in sorted(everywhere):
        os.sched_setaffinity(0, {core})
        os.sched_setaffinity(0, everywhere)
        softmax(x)
print([sorted(mask) for mask in masks()])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    masks = ast.literal_eval(done.stdout)
    assert any(len(mask) == len(cores) - 1 for mask in masks), masks
