"""Calls run on torch's threads while these spin; every program runs once all the same, in order of launches."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from vkernels.runtime import torch_team
from vkernels.runtime.pool import Pool, Waiting, is_native
from vkernels.runtime.torch_team import Team
from vkernels.runtime.work_descriptor import NativeLaunch, WorkDescriptor

from .programs import Programs, Slots

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(
    not is_native() or torch_team.torch_team() is None or len(os.sched_getaffinity(0)) < 2,
    reason="no native pool, torch with OpenMP, or second core here",
)
LONG = 1.0
"""Seconds that a call is said to take: it pays for every way to share it."""

SECOND_THREAD = 31
"""The word of a pool that has the id of the team's second thread."""

SPINS = 34
"""The word of a pool that says how long it does not ask again whether a team spins."""


@pytest.fixture(scope="module")
def programs():
    return Programs()


@pytest.fixture
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def pool(two_threads):
    pool = Pool(Waiting(share=1e-9))
    pool.reserve(2)
    pool.join(torch_team.torch_team())
    yield pool
    pool.stop()


def spin():
    """An operation of torch on both threads, after which they spin."""
    torch.ones(1 << 20).add_(1)


def call_of(programs, slots, count, launches=1, threads=2, seconds=LONG):
    call = WorkDescriptor([NativeLaunch(programs.add_one, count)] * launches, slots.address, threads, 0, None)
    call.set_seconds(seconds)
    return call


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000, 100_003])
@pytest.mark.parametrize("launches", [1, 3])
def test_every_program_runs_once_while_torch_spins(pool, programs, count, launches):
    slots = Slots(count)
    for repeat in range(1, 30):
        spin()
        pool.run(call_of(programs, slots, count, launches))
        assert (slots.counts == repeat * launches).all()


def test_a_team_runs_calls_while_it_spins_and_helpers_run_them_when_it_sleeps(pool, programs):
    """The system says when torch's second thread runs: threads that never do, or do when asked, stand in for it."""
    slots, ended = Slots(1000), threading.Thread()
    call = call_of(programs, slots, 1000)
    ended.start()
    ended.join()
    assert pool._words[SECOND_THREAD] not in (0, threading.get_native_id())
    pool._words[SECOND_THREAD] = ended.native_id
    pool.run(call)
    assert pool.team_ended == 0
    pool._words[SECOND_THREAD] = threading.get_native_id()
    pool._words[SPINS] = 10**12
    pool.run(call)
    assert pool.team_ended == 0, "asked again although it has just been seen at rest"
    pool._words[SPINS] = 0
    pool.run(call)
    seen = pool.team_ended
    assert seen
    pool._words[SECOND_THREAD] = ended.native_id
    time.sleep(0.01)  # longer than a team is said to spin without looking
    pool.run(call)
    assert pool.team_ended == seen
    assert (slots.counts == 4).all()


def test_short_calls_stay_on_their_thread(pool, programs):
    slots = Slots(10)
    call = call_of(programs, slots, 10, seconds=2e-9)
    for _ in range(20):
        spin()
        pool.run(call)
    assert pool.team_ended == 0
    assert (slots.counts == 20).all()


@pytest.mark.parametrize("threads", [1, 3, 8])
def test_other_numbers_of_threads_than_torch_has_are_not_torchs_business(pool, programs, threads):
    """A team of another size would be started anew, and torch's own after it."""
    slots = Slots(1000)
    pool.reserve(threads)
    for _ in range(20):
        spin()
        pool.run(call_of(programs, slots, 1000, threads=threads))
    assert pool.team_ended == 0
    assert (slots.counts == 20).all()


def test_other_threads_have_no_part_in_the_team(pool, programs):
    slots = [Slots(1000) for _ in range(4)]

    def run(own):
        for _ in range(50):
            pool.run(call_of(programs, own, 1000))

    threads = [threading.Thread(target=run, args=(each,)) for each in slots]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pool.team_ended == 0
    assert all((each.counts == 50).all() for each in slots)


def test_a_team_that_ended_is_met_again(pool, programs):
    assert not pool.takes_team
    torch.set_num_threads(1)
    spin()
    torch.set_num_threads(2)
    torch.set_num_threads(3)
    spin()
    torch.set_num_threads(2)
    spin()
    slots = Slots(1000)
    pool.run(call_of(programs, slots, 1000))
    if pool.takes_team:
        pool.join(torch_team.torch_team())
    pool.run(call_of(programs, slots, 1000))
    assert (slots.counts == 2).all()
    assert not pool.takes_team


def test_a_pool_without_a_team_has_helpers(two_threads, programs):
    pool, slots = Pool(), Slots(1000)
    try:
        pool.reserve(2)
        assert pool.takes_team
        spin()
        pool.run(call_of(programs, slots, 1000))
        assert pool.team_ended == 0
    finally:
        pool.stop()
    assert (slots.counts == 1).all()


@pytest.mark.slow
def test_a_forked_process_has_no_team():
    """OpenMP's threads do not live on in a child, where it would wait for them forever."""
    code = """
import os, torch
torch.set_num_threads(2)
torch.ones(1 << 20).add_(1)
import numpy as np
from vkernels.library import softmax
from vkernels.runtime import torch_team
x = torch.rand(512, 512)
expected = [softmax(x).numpy().tobytes() for _ in range(10)][-1]
assert torch_team.torch_team() is not None
child = os.fork()
if child == 0:
    assert torch_team.torch_team() is None
    os._exit(0 if all(softmax(x).numpy().tobytes() == expected for _ in range(10)) else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_without_torch_there_is_no_team():
    code = "from vkernels.runtime import torch_team; import sys; assert torch_team.torch_team() is None"
    subprocess.run([sys.executable, "-c", f"{code}; assert 'torch' not in sys.modules"], check=True, timeout=120)


def test_a_torch_without_openmp_has_no_team(monkeypatch):
    monkeypatch.setattr(torch.backends.openmp, "is_available", lambda: False)
    assert torch_team.torch_team() is None


def test_functions_are_those_that_torch_uses(two_threads):
    team = torch_team.torch_team()
    assert isinstance(team, Team)
    import ctypes

    assert ctypes.CFUNCTYPE(ctypes.c_int)(team.most)() == 2
    assert ctypes.CFUNCTYPE(ctypes.c_int)(team.number)() == 0


@pytest.mark.slow
def test_results_have_the_same_bits_on_either(two_threads):
    from vkernels.library import matmul

    a, b = torch.randn(300, 200), torch.randn(200, 100)
    found = []
    for pause in (0.0, 0.1) * 10:
        spin()
        time.sleep(pause)
        found.append(matmul(a, b).numpy().tobytes())
    assert len(set(found)) == 1
    np.testing.assert_allclose(
        np.frombuffer(found[0], np.float32).reshape(300, 100), a.double() @ b.double(), atol=1e-4
    )
