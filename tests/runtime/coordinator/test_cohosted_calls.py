"""`vk.cohost`: calls of threads that meet, on shares of the cores with the plans for these, with right results."""

import os
import subprocess
import sys
import threading
import time

import pytest
import torch

import vkernels as vk
from tests.library.reference import fresh_seed
from vkernels.autotune.slice_names import slice_limits
from vkernels.compiler.tuned_plans import TunedPlan
from vkernels.ir.plan import Plan
from vkernels.library import layer_norm, matmul, softmax
from vkernels.library.rows import softmax_rows
from vkernels.runtime import cohosted_calls
from vkernels.runtime.bound_executable import BoundExecutable
from vkernels.runtime.coordinator.cohost import HOST, Company, Way
from vkernels.runtime.dispatch import launcher_of
from vkernels.runtime.pool import is_native
from vkernels.runtime.threads import forget_calls
from vkernels.runtime.tracing import tracing
from vkernels.targets.host_cpu import usable_cores
from vkernels.targets.slices import cpu_slice_limits
from vkernels.targets.slices.shares import cores_beside

pytestmark = pytest.mark.compile


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """Calls use two threads, whatever there is; afterwards they run as in a process that never used `cohost`."""
    monkeypatch.setattr(cohosted_calls, "in_use", False)
    before = vk.get_threads()
    vk.set_threads(2)
    yield
    cohosted_calls.in_use = False
    HOST._companies.clear()
    vk.set_threads(before)
    forget_calls()


@pytest.fixture
def side_by_side(monkeypatch):
    """Whatever meets runs side by side, however short it is."""
    monkeypatch.setattr(Company, "fits", True)
    monkeypatch.setattr(cohosted_calls, "SHORT", 0.0)


class Neighbour:
    """A task that is at work all the time, with calls of a kind that is known."""

    def __enter__(self):
        self.task = HOST.enter()
        self.task.kind = self
        self.task.ended = float("inf")  # its last call is not long ago
        self.name, self.key, self.whole = "neighbour", "neighbour", 1e-3
        return self

    def needs(self, tasks):
        return {"cores": 1 / tasks}

    def __exit__(self, *_):
        HOST.leave(self.task)


def until_beside(call, seconds=300):
    """Call until a call ran beside the neighbour: code for its share is made in the background."""
    until = time.monotonic() + seconds
    while not any(company.beside for company in vk.stats().companies):
        assert time.monotonic() < until
        time.sleep(0.005)
        call()


def test_calls_run_on_their_share_with_the_plan_for_it(side_by_side):
    x = torch.randn(700, 900, generator=torch.Generator().manual_seed(fresh_seed()))
    slices, expected = [], x.softmax(-1)
    with vk.cohost():
        softmax(x)
        with Neighbour():
            until_beside(lambda: softmax(x))
            with vk.on_launch(lambda event: slices.append(event.slice)):
                found = softmax(x)
        torch.testing.assert_close(found, expected)
        (company,) = vk.stats().companies
    assert slices == ["cpu:cores=1"]
    assert set(company.kernels) == {"softmax_rows M=700 N=900", "neighbour"}
    assert company.is_beside


class TunedForOneCore:
    """A provider of plans for one core: of a process that has all of the L3, and of one beside others."""

    def __init__(self, by_itself=None, beside=None):
        self.by_itself, self.beside = by_itself, beside

    def plans(self, query):
        if query.limits.multiprocessors > 1:
            return []
        plan = self.beside if query.limits.cache < cpu_slice_limits(2).cache else self.by_itself
        return [] if plan is None else [TunedPlan(plan, lambda: "an entry")]

    def variants(self, query):
        return ()


PLANS = [Plan({"i": rows}, {"j": 8}, lanes="j", order=("i",), warps=1) for rows in (1, 2)]


@pytest.mark.skipif(usable_cores() != 2, reason="of two cores each task has one")
@pytest.mark.parametrize(
    ("tuned", "plan"),
    [({"by_itself": PLANS[0]}, PLANS[0]), ({"by_itself": PLANS[0], "beside": PLANS[1]}, PLANS[1])],
)
def test_a_plan_tuned_for_a_share_is_what_a_call_gets_while_it_shares(side_by_side, monkeypatch, session, tuned, plan):
    plans = []
    monkeypatch.setattr(session.tuned_plans, "provider", TunedForOneCore(**tuned))
    session.forget_tuned_plans()
    x = torch.randn(501, 333, generator=torch.Generator().manual_seed(fresh_seed()))
    out = torch.full_like(x, torch.nan)
    with vk.cohost(), vk.on_launch(lambda event: plans.append(event.plan)):
        softmax_rows(x, out)
        with Neighbour():
            until_beside(lambda: softmax_rows(x, out))
            out.fill_(torch.nan)
            softmax_rows(x, out)
    torch.testing.assert_close(out, x.softmax(-1))
    assert plans[0] != plan
    assert plans[-1] == plan


def test_a_share_without_a_tuned_plan_is_planned_with_its_part_of_the_cache():
    name, limits = cores_beside(1)
    assert name.startswith("cpu:cores=1,l2=")
    assert limits.multiprocessors == 1
    assert limits.shared == cpu_slice_limits(1).shared, "a core has an L2 of its own"
    assert limits.cache == cpu_slice_limits(1).cache // usable_cores()
    assert slice_limits(name) == limits, "what `vk tune --target` tunes for"
    _, many = cores_beside(10_000)
    assert many.multiprocessors == 10_000


def test_deterministic_calls_keep_their_plan_and_bits(side_by_side):
    x = torch.randn(300, 5000, generator=torch.Generator().manual_seed(fresh_seed()))
    events = []
    vk.set_deterministic(True)
    try:
        expected = softmax(x)
        with vk.cohost(), vk.on_launch(events.append):
            softmax(x)
            with Neighbour():
                until_beside(lambda: softmax(x))
                found = softmax(x)
    finally:
        vk.set_deterministic(None)
    assert torch.equal(found, expected)
    assert all(event.plan == events[0].plan for event in events)
    assert events[-1].slice == "cpu:cores=1"


def test_threads_that_meet_have_right_results():
    """Calls of several kernels and sizes in four threads on two cores, which enter and leave."""
    torch.manual_seed(fresh_seed())
    x, weight = torch.randn(257, 513), torch.randn(513, 129)
    scale, bias = torch.randn(513), torch.randn(513)
    expected = [x.softmax(-1), x @ weight, torch.nn.functional.layer_norm(x, (513,), scale, bias)]
    failures = []

    def work():
        for _ in range(3):
            with vk.cohost():
                for _ in range(20):
                    found = [softmax(x), matmul(x, weight), layer_norm(x, scale, bias)]
            for mine, right in zip(found, expected, strict=True):
                if not torch.allclose(mine, right, atol=1e-3, rtol=1e-4):
                    failures.append(mine)

    threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    assert failures == []
    assert HOST._tasks == []


def test_shares_of_several_cores_have_pools_of_their_own(side_by_side):
    vk.set_threads(4)
    x = torch.randn(1200, 1300, generator=torch.Generator().manual_seed(fresh_seed()))
    slices = []
    with vk.cohost():
        softmax(x)
        with Neighbour():
            until_beside(lambda: softmax(x))
            with vk.on_launch(lambda event: slices.append(event.slice)):
                torch.testing.assert_close(softmax(x), x.softmax(-1))
    assert slices == ["cpu:cores=2"]
    if is_native():
        pool = cohosted_calls.the_pool()
        assert [side.helpers for side in pool._sides.values()] == [1]
        with vk.priority("high"), vk.cohost():  # the board that comes now is lent to that pool
            torch.testing.assert_close(softmax(x), x.softmax(-1))
        assert {side._words[120] for side in pool._sides.values()} == {pool._words[120]} != {0}


@pytest.mark.parametrize("level", ["low", "high"])
def test_calls_of_other_priorities_go_as_they_do(level, monkeypatch):
    monkeypatch.setattr(HOST, "begin", None)
    x = torch.randn(64, 64)
    with vk.cohost(), vk.priority(level):
        torch.testing.assert_close(softmax(x), x.softmax(-1))


def test_a_call_that_fails_leaves_no_trace():
    with vk.cohost():
        with pytest.raises(vk.Error):
            matmul(torch.ones(3, 4), torch.ones(5, 6))
        (task,) = HOST._tasks
        assert not task.in_call
        assert not task.waits
        with vk.cohost():
            assert HOST._tasks == [task]
        assert HOST._tasks == [task]
    assert HOST._tasks == []


def test_code_that_cannot_be_bound_keeps_nobody_waiting(side_by_side, monkeypatch):
    def refuse(*_):
        raise vk.SetupError("no more threads")

    x = torch.randn(701, 903)
    with vk.cohost():
        softmax(x)
        (task,) = HOST._tasks
        monkeypatch.setattr(cohosted_calls.CohostedCalls, "_on_share", refuse)
        with Neighbour(), pytest.raises(vk.SetupError, match="no more threads"):
            until_beside(lambda: softmax(x))
        assert not task.in_call


def test_a_trace_shows_that_calls_wait_for_their_part():
    x = torch.randn(702, 904)
    with vk.cohost(), tracing() as trace:
        softmax(x)
    (wait,) = [span for span in trace.spans if span.kind == "wait"]
    (run,) = [span for span in trace.spans if span.kind == "run"]
    assert run.start <= wait.start <= wait.end <= run.end
    assert wait.about["kernel"] == "softmax_rows"


def test_short_calls_on_one_thread_wait_for_nobody(monkeypatch):
    monkeypatch.setattr(cohosted_calls, "SHORT", float("inf"))
    x = torch.randn(8, 9)
    with vk.cohost():
        for _ in range(100):
            softmax(x)
        (task,) = HOST._tasks
        assert task.kind.is_short
        monkeypatch.setattr(HOST, "begin", None)
        torch.testing.assert_close(softmax(x), x.softmax(-1))
        assert not task.in_call


def test_it_may_decorate_a_function():
    @vk.cohost()
    def work(left):
        assert len(HOST._tasks) == 1
        return left and work(left - 1)

    work(3)
    assert HOST._tasks == []
    with pytest.raises(vk.OptionError, match="cohost: later"):

        @vk.cohost()
        async def later():
            pass


def test_nothing_is_in_the_way_before_it_is_used_or_with_one_thread():
    x = torch.randn(40, 50)
    out = torch.empty_like(x)
    (launcher, kinds) = launcher_of(softmax_rows), []
    for threads, enters in ((2, False), (2, True), (1, False)):
        vk.set_threads(threads)
        if enters:
            with vk.cohost():
                pass
        softmax_rows(x, out)
        kinds.append(isinstance(launcher.entries[-1].distinct, cohosted_calls.CohostedCalls))
    assert kinds == [False, True, False]
    assert not isinstance(launcher.entries[-1].distinct, BoundExecutable) or vk.get_threads() == 1


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_the_task_of_its_thread_alone():
    code = """
import os, threading
import numpy as np
import vkernels as vk
from vkernels.library.rows import softmax_rows
from vkernels.runtime.coordinator.cohost import HOST
vk.set_threads(2)
x = np.random.default_rng().random((300, 400), np.float32)
def check():
    out = np.full_like(x, np.nan)
    softmax_rows(x, out)
    np.testing.assert_allclose(out, np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-4)
leaves, entered = threading.Event(), threading.Event()
def other():
    with vk.cohost():
        entered.set()
        leaves.wait(60)
thread = threading.Thread(target=other)
thread.start()
assert entered.wait(60)
with vk.cohost():
    check()
    child = os.fork()
    assert len(HOST._tasks) == (1 if child == 0 else 2)
    check()
assert len(HOST._tasks) == (0 if child == 0 else 1)
if child == 0:
    os._exit(0)
_, status = os.waitpid(child, 0)
leaves.set()
thread.join()
assert status == 0, status
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_ways_have_names():
    assert [way.value for way in Way] == ["alone", "in turns", "side by side"]


@pytest.mark.skipif(usable_cores() != 2, reason="of two cores each task has one")
def test_a_plan_that_is_tuned_meanwhile_is_taken(side_by_side, monkeypatch, session):
    x = torch.randn(503, 337, generator=torch.Generator().manual_seed(fresh_seed()))
    out, plans = torch.full_like(x, torch.nan), []
    with vk.cohost(), Neighbour(), vk.on_launch(lambda event: plans.append(event.plan)):
        for provider in (None, TunedForOneCore(PLANS[0])):
            monkeypatch.setattr(session.tuned_plans, "provider", provider)
            session.forget_tuned_plans()
            HOST._companies.clear()
            until_beside(lambda: softmax_rows(x, out))
            softmax_rows(x, out)
            plans.append(None)
    torch.testing.assert_close(out, x.softmax(-1))
    assert plans[-2] == PLANS[0]
    assert plans[plans.index(None) - 1] != PLANS[0]
