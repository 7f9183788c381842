"""Calls come to code that fits: the next plan down where it does not, a plain one while a better one is made."""

from __future__ import annotations

import logging
import random
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import Float

import vkernels as vk
from vkernels.compiler.default_session import patient, use_session
from vkernels.compiler.log_once import LogOnce
from vkernels.compiler.plan_fallback import BOTTOM, MAX_TRIES, PlanFallback
from vkernels.compiler.plans import Plans
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.workers.jobs import NoBinaryError
from vkernels.ir.analysis.needs import NeedsUse
from vkernels.ir.cost_model.plan_batch import ModeledTimes
from vkernels.ir.errors import OutOfMemoryError, PlanError
from vkernels.ir.plan import Plan
from vkernels.ir.planning.choose_plan import Chosen
from vkernels.ir.planning.resources import OutOfResources, Resource, Shortage
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.memory_blocks import Block

from ..runtime.gpu.fakes import FakeDriver, OnGpu, RunningDriver, compile_fake, use
from .new_kernels import new


@pytest.fixture(autouse=True)
def session():
    """A session of its own for each test: no plan is known before."""
    with use_session(CompilerSession(patience=600.0)) as session:
        yield session


def chosen(number, rung="registers", **takes) -> Chosen:
    plain = dict.fromkeys(NeedsUse.__dataclass_fields__, 100.0)
    taken = NeedsUse(**{**plain, "phases": (), "threads": 128, "spills": False, "programs": (64,), **takes})
    return Chosen(Plan({"i": number}), taken, ModeledTimes({}, 0.0), rung)


def only(plans):
    """`plans_down` of a list: all that is wanted, and the bottom rung."""
    return lambda wanted: (plan for plan in plans if plan.rung == BOTTOM or wanted(plan.use))


@pytest.fixture
def draw():
    seed = random.randrange(1 << 30)
    print("seed", seed)
    return random.Random(seed)


# The fallback, with a compiler that is made up


def test_the_first_plan_whose_code_fits_is_landed_on(draw):
    for _ in range(50):
        room = draw.randrange(1, 1000)
        sizes = sorted((draw.randrange(0, 3000) for _ in range(20)), reverse=True)
        plans = [chosen(number, shared_bytes=size) for number, size in enumerate(sizes)]
        tried = []

        def attempt(plan, sizes=sizes, room=room, tried=tried):
            tried.append(plan.tiles["i"])
            if plan.tiles["i"] < len(sizes) and sizes[plan.tiles["i"]] > room:
                raise OutOfResources(Shortage(Resource.SHARED, sizes[plan.tiles["i"]], room, "needs more"))
            return plan

        fallback = PlanFallback("k", only([*plans, chosen(20, BOTTOM, shared_bytes=0)]), attempt)
        assert fallback.compile_first_fit() is fallback.chosen.plan
        assert len(tried) <= MAX_TRIES + 1
        assert fallback.chosen.rung == BOTTOM or fallback.chosen.use.shared_bytes <= room


def test_where_nothing_fits_the_error_says_all_that_was_tried():
    plans = [chosen(0, "registers"), chosen(1, "shared", shared_bytes=10.0), chosen(2, BOTTOM, shared_bytes=0)]

    def attempt(plan):
        raise OutOfResources(Shortage(Resource.SHARED, 1, 0, f"plan {plan.tiles['i']} is too much"))

    fallback = PlanFallback("k", only(plans), attempt)
    for _ in range(2):  # and it does not grow
        with pytest.raises(PlanError) as caught:
            fallback.compile_first_fit()
        assert str(caught.value).splitlines()[1:] == [
            "  registers: plan 0 is too much", "  shared: plan 1 is too much", "  bottom: plan 2 is too much",
        ]  # fmt: skip


# A GPU that is not there


def gpu_softmax(monkeypatch, compile_jobs, name="softmax", driver=None, **options):
    x = torch.randn(9, 700)
    out = torch.full_like(x, torch.nan)
    tensors = OnGpu(x), OnGpu(out)
    driver = driver or RunningDriver(tensors)
    use(monkeypatch, driver, compile_jobs)
    launcher, seen = Launcher(new(name, **options)), []
    with vk.on_launch(seen.append):
        launcher(*tensors)
    if isinstance(driver, RunningDriver):
        torch.testing.assert_close(out, torch.softmax(x.double(), -1).float())
    return seen[0]


def refusing(times, error):
    asked = []

    def compile_(jobs):
        asked.append(jobs)
        if len(asked) <= times:
            raise error
        return compile_fake(jobs)

    return compile_


@pytest.mark.parametrize("error", [RuntimeError("no such layout"), NoBinaryError("it hangs"), MemoryError()])
def test_where_the_compiler_gives_no_code_the_next_plan_is_run(monkeypatch, error):
    first = gpu_softmax(monkeypatch, compile_fake)
    second = gpu_softmax(monkeypatch, refusing(1, error), "refused_once")
    assert second.plan != first.plan
    assert second.rung != BOTTOM


@pytest.mark.slow
def test_landing_on_the_bottom_rung_is_said_once(monkeypatch, caplog, session):
    monkeypatch.setattr(session, "log_once", LogOnce())
    for _ in range(2):
        event = gpu_softmax(monkeypatch, refusing(MAX_TRIES, RuntimeError("no")), "lands", FakeDriver())
        assert (event.rung, event.plan.warps, event.plan.resident_programs) == (BOTTOM, 1, 1)
        session.plan_cache._plans.clear()
    said = [record for record in caplog.records if "bottom rung" in record.getMessage()]
    assert [record.levelno for record in said] == [logging.WARNING]
    assert "running is not yet running well" in said[0].getMessage()


def test_where_even_the_bottom_rung_has_no_code_the_error_says_what_was_tried(monkeypatch):
    with pytest.raises(PlanError, match=r"not even that of the bottom rung; tried:\n(.*no such layout\n?){4}$"):
        gpu_softmax(monkeypatch, refusing(99, RuntimeError("no such layout")))


class Small(FakeDriver):
    """A device on which functions of more than so many threads do not fit."""

    def __init__(self, threads):
        super().__init__()
        self.threads = threads

    def resident(self, function, threads, shared):
        return int(threads <= self.threads)


def test_what_the_device_refuses_to_hold_is_the_next_plan_down(monkeypatch):
    free = gpu_softmax(monkeypatch, compile_fake, "free", FakeDriver())
    threads = 32 * free.plan.warps // 2
    assert threads >= 32
    small = gpu_softmax(monkeypatch, compile_fake, "held", Small(threads))
    assert 32 * small.plan.warps <= threads


def test_an_authors_plan_that_does_not_fit_is_an_error_and_nothing_replaces_it(monkeypatch):
    plan = Plan({"i": 1}, {"j": 64}, lanes="j", warps=4)
    with pytest.raises(PlanError, match=r"^softmax: the plan that its author gives needs more registers or threads"):
        gpu_softmax(monkeypatch, compile_fake, driver=Small(64), plan=plan)


@pytest.mark.slow
def test_a_pin_stands_all_the_way_down(monkeypatch):
    for times in range(MAX_TRIES + 1):
        event = gpu_softmax(
            monkeypatch,
            refusing(times, RuntimeError("no")),
            f"pinned_{times}",
            FakeDriver(),
            plan=vk.Pin(tiles={"i": 2}, warps=2),
        )
        assert (event.plan.tiles["i"], event.plan.warps) == (2, 2)


class Poor(RunningDriver):
    """A device with so many bytes of memory left."""

    def __init__(self, tensors, left):
        super().__init__(tensors)
        self.left = left

    def allocate(self, device, size):
        if size > self.left:
            raise OutOfMemoryError(f"{size} bytes are more than {self.left}")
        return super().allocate(device, size)


@pytest.mark.slow
def test_memory_that_cannot_be_allocated_is_the_next_plan_down(monkeypatch):
    x, out = torch.randn(9, 700), torch.full((9, 700), torch.nan)
    tensors = OnGpu(x), OnGpu(out)
    use(monkeypatch, Poor(tensors, 0))
    given = [
        Plan({"i": 1}, {"j": 64}, {"e": vk.Home.MEMORY}, lanes="j", warps=1),
        Plan({"i": 1}, {"j": 64}, {"e": vk.Home.MEMORY}, lanes="j", warps=1, resident_programs=2),
        Plan({"i": 1}, {"j": 64}, lanes="j", warps=1),
    ]
    fakes = [replace(chosen(n, "memory"), plan=plan) for n, plan in enumerate(given)]
    fakes[2] = replace(fakes[2], use=replace(fakes[2].use, swap_bytes=0.0, programs=(9,)))
    monkeypatch.setattr(
        "vkernels.compiler.plans.Plans.ranked", lambda self, wanted: only([*fakes, chosen(3, BOTTOM)])(wanted)
    )
    seen = []
    launcher = Launcher(new("poor"))
    with vk.on_launch(seen.append):
        launcher(*tensors)
        launcher(*tensors)
    torch.testing.assert_close(out, torch.softmax(x.double(), -1).float())
    assert [event.plan for event in seen] == [given[2]] * 2


def test_where_no_plan_takes_little_enough_memory_that_is_the_error(monkeypatch):
    x = torch.randn(9, 700)
    tensors = OnGpu(x), OnGpu(torch.empty_like(x))
    use(monkeypatch, Poor(tensors, 0))
    bottom = replace(chosen(0, BOTTOM), plan=Plan({"i": 1}, {"j": 64}, {"e": vk.Home.MEMORY}, lanes="j", warps=1))
    monkeypatch.setattr("vkernels.compiler.plans.Plans.ranked", lambda self, wanted: only([bottom])(wanted))
    launcher = Launcher(new("broke"))
    for _ in range(2):
        with pytest.raises(OutOfMemoryError, match=r"(?s)bytes are more than 0.*\n  bottom: finds too little memory"):
            launcher(*tensors)


def test_memory_of_a_cpu_that_cannot_be_allocated_is_too(monkeypatch):
    x, out = np.random.default_rng().standard_normal((9, 5000), np.float32), np.full((9, 5000), np.nan, np.float32)
    kernel = new("cpu_poor")
    swapped = replace(chosen(0, "memory"), plan=Plan({"i": 1}, {"j": 64}, {"e": vk.Home.MEMORY}, lanes="j"))
    again = replace(chosen(1, "recompute"), plan=Plan({"i": 1}, {"j": 64}, lanes="j"))
    again = replace(again, use=replace(again.use, swap_bytes=0.0, programs=(9,)))
    monkeypatch.setattr(
        "vkernels.compiler.plans.Plans.ranked", lambda self, wanted: only([swapped, again, chosen(2, BOTTOM)])(wanted)
    )

    def borrow(size):
        if size > 4096:
            raise OutOfMemoryError(f"{size} bytes")
        return Block(size)

    monkeypatch.setattr("vkernels.runtime.bound_executable.borrow", borrow)
    seen = []
    with vk.on_launch(seen.append):
        kernel(x, out)
    assert seen[0].plan == again.plan
    expected = torch.softmax(torch.from_numpy(x).double(), -1).float()
    torch.testing.assert_close(torch.from_numpy(out), expected)


# A plain plan while a better one is made


@pytest.fixture
def slow(monkeypatch, session):
    """Choosing waits for this; first calls wait for nothing."""
    gate = threading.Event()
    monkeypatch.setattr(session, "patience", 0.0)
    found = Plans.first_fit

    def waiting(self, *of):
        assert gate.wait(60)
        return found(self, *of)

    monkeypatch.setattr(Plans, "first_fit", waiting)
    yield gate
    gate.set()
    finished()


def arrays(rows=30, columns=500):
    x = np.random.default_rng().standard_normal((rows, columns), np.float32)
    return x, np.full_like(x, np.nan)


def check(x, out):
    torch.testing.assert_close(torch.from_numpy(out), torch.softmax(torch.from_numpy(x).double(), -1).float())
    out[:] = np.nan


def finished():
    deadline = time.monotonic() + 60
    while any(thread.name.startswith("vkernels-") and not thread.daemon for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_who_is_patient_gets_the_better_plan_at_once(slow):
    kernel, seen = new("patient"), []
    x, out = arrays()
    threading.Timer(0.2, slow.set).start()
    with vk.on_launch(seen.append), patient():
        kernel(x, out)
    check(x, out)
    assert [event.plan for event in seen] == [kernel.compile(x, out).plan]


def test_a_plain_plan_runs_until_the_better_one_is_ready_and_both_are_said(slow, caplog):
    caplog.set_level(logging.INFO, "vkernels")
    kernel, seen = new("late"), []
    x, out = arrays()
    with vk.on_launch(seen.append):
        for _ in range(3):
            kernel(x, out)
            check(x, out)
        slow.set()
        finished()
        for _ in range(2):
            kernel(x, out)
            check(x, out)
    plain, better = seen[0].plan, seen[-1].plan
    assert plain != better
    assert [event.plan for event in seen] == [plain] * 3 + [better] * 2
    assert better == kernel.compile(x, out).plan
    said = [record.getMessage() for record in caplog.records if record.name == "vkernels.compiler.code_providers"]
    assert len(said) == 2
    assert "a plain one runs until it is" in said[0]
    assert "the better plan is taken over" in said[1]


def test_many_threads_get_right_results_before_while_and_after(slow):
    kernel, wrong = new("crowded"), []

    def work(number):
        x, out = arrays(rows=20 + number % 3)
        for _ in range(30):
            kernel(x, out)
            try:
                check(x, out)
            except AssertionError as error:
                wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    slow.set()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_fails_in_the_background_is_logged_once_and_the_plain_plan_stays(monkeypatch, caplog, session):
    monkeypatch.setattr(session, "patience", 0.0)
    gate = threading.Event()

    def failing(self, *of):
        assert gate.wait(60)
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr("vkernels.compiler.plans.Plans.first_fit", failing)
    kernel = new("broken")
    x, out = arrays()
    kernel(x, out)
    gate.set()
    finished()
    for _ in range(3):
        kernel(x, out)
        check(x, out)
    logged = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(logged) == 1
    assert "a bug of ours" in str(logged[0].exc_info[1])


@pytest.mark.parametrize("patience", [0.0, 600.0])
def test_an_authors_mistake_is_raised_by_the_first_call(monkeypatch, session, patience):
    monkeypatch.setattr(session, "patience", patience)

    @vk.kernel(plan=vk.Pin(tiles={"q": 4}))
    def pinned(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
        i = vk.tile("N")
        out[i] = x[i]

    x = np.zeros(10, np.float32)
    for _ in range(2):
        with pytest.raises(PlanError, match="tiles pins 'q'"):
            pinned(x, x.copy())
