"""Deterministic calls give the same bits in every run: whatever is measured, tuned, called before, or how many threads
there are. What could not, is refused."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch
from jaxtyping import Float, Int, Num

import vkernels as vk
from vkernels import library
from vkernels.autotune.plan_space import read
from vkernels.compiler.default_session import use_session
from vkernels.compiler.plan_fallback import shortages
from vkernels.compiler.session import CompilerSession
from vkernels.compiler.tuned_plans import TunedPlan
from vkernels.compiler.workers.jobs import NoBinaryError
from vkernels.inspect.check.prepare_kernel import KernelPreparer
from vkernels.inspect.explain.analyze import Question, find
from vkernels.inspect.task import Task
from vkernels.ir.disk_cache import DiskCache
from vkernels.ir.errors import OutOfMemoryError
from vkernels.ir.plan_json import plan_to_json
from vkernels.ir.planning.resources import OutOfResources
from vkernels.language.kernel import Kernel
from vkernels.library.dense import matmul_bias
from vkernels.library.rows import softmax_rows
from vkernels.runtime.determinism import using_deterministic
from vkernels.runtime.dispatch import Launcher
from vkernels.runtime.threads import using_threads
from vkernels.targets import known_targets, limits_of
from vkernels.targets.deterministic import deterministic_limits
from vkernels.targets.host_cpu import cpu_limits
from vkernels.targets.slices import cpu_slice_limits

from ..library.test_default_plans import outputs_of
from ..library.test_ttir import cases
from .calibrations import CALIBRATIONS, calibrating


@pytest.fixture
def calibrated(monkeypatch):
    with calibrating(monkeypatch) as calibrate:
        yield calibrate


WIDTH = vk.tunable(4, 8)


@vk.kernel
def normalise(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], *, width: vk.Constant = WIDTH):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    out[i, j] = row / vk.sum(row * row, axis=j) * width


@vk.kernel(deterministic=True)
def always(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = x[i, j] / vk.sum(x[i, j], axis=j)


@vk.kernel
def sum_all(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "1"]):
    j = vk.whole("N")
    out[0] = vk.sum(x[j])


@vk.kernel
def scatter_sums(index: Int[vk.Tensor, "N"], x: Num[vk.Tensor, "N"], total: Num[vk.Tensor, "B"]):
    n = vk.tile("N")
    vk.atomic_add(total[index[n]], x[n])


def called(kernel, *values, session=None):
    """The plan of a call in a new process, and the bits of the last tensor, which it writes."""
    seen, out = [], values[-1]
    out[...] = 0
    with vk.on_launch(seen.append):
        Launcher(kernel, session or CompilerSession(patience=600.0))(*values)
    return seen[-1].plan, out.tobytes() if isinstance(out, np.ndarray) else out.numpy().tobytes()


def calls():
    torch.manual_seed(3)
    x, index = torch.randn(3, 70_001), torch.randint(0, 300, (100_003,))
    return (
        (softmax_rows, x, x.clone()),
        (matmul_bias, torch.randn(130, 170), torch.randn(170, 150), torch.randn(150), torch.empty(130, 150)),
        (normalise, torch.randn(37, 5001), torch.empty(37, 5001)),
        (scatter_sums, index, torch.randn(100_003), torch.empty(300)),
    )


SETTINGS = tuple(zip((1, 2, 3, 2), CALIBRATIONS, strict=True))


@pytest.mark.slow
def test_calibrations_and_threads_change_plans_but_not_deterministic_ones(calibrated, tmp_path):
    changed = []
    for call in calls():
        found = {True: [], False: []}
        for (threads, rates), on in itertools.product(SETTINGS, (True, False)):
            calibrated(rates)
            with using_deterministic(on), using_threads(threads):
                session = CompilerSession(DiskCache(tmp_path), patience=600.0)
                found[on].append(called(*call, session=session))
        plans, bits = zip(*found[True], strict=True)
        assert all(plan == plans[0] for plan in plans)
        assert len(set(bits)) == 1
        changed.append(any(plan != found[False][0][0] for plan, _ in found[False]))
    assert any(changed)


@pytest.mark.parametrize("function", [library.sum, library.cumulative_sum])
def test_functions_of_the_library_follow_the_setting(function, calibrated):
    """Those that divide rows by the number of threads, and calls that are repeated without their Python code, too."""
    x, found = torch.randn(2, 100_001), set()
    with using_deterministic(True):
        for threads, rates in SETTINGS:
            calibrated(rates)
            with using_threads(threads), use_session(CompilerSession(patience=600.0)):
                found |= {function(x).numpy().tobytes() for _ in range(3)}
    assert len(found) == 1


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", cases(np.float32, 0))
def test_kernels_of_the_library_give_the_same_bits(name, calibrated):
    call = cases(np.float32, 7)[name]
    found = set()
    with using_deterministic(True):
        for threads, rates in SETTINGS:
            calibrated(rates)
            with using_threads(threads):
                run = Launcher(call.kernel, CompilerSession(patience=600.0))
                found.add(b"".join(each.tobytes() for each in outputs_of(call, run).values()))
    assert len(found) == 1


def test_a_first_call_has_the_plan_of_later_ones():
    """Without patience, other calls get a plain plan first."""
    call = calls()[1]
    with using_deterministic(True):
        impatient, first = CompilerSession(patience=0.0), called(*call)
        assert called(*call, session=impatient) == first == called(*call, session=impatient)
    assert called(*call, session=CompilerSession(patience=0.0))[0] != first[0]


@pytest.mark.slow
def test_a_call_has_a_plan_for_its_sizes_whatever_was_called_before():
    rows = [torch.randn(5, n) for n in (100, 201, 150, 133)]
    found = []
    with using_deterministic(True):
        for order in (rows, rows[::-1]):
            session = CompilerSession(patience=600.0, exact_shapes=0)
            launch = Launcher(softmax_rows, session)
            results = [torch.empty_like(x) for x in order]
            for x, out in zip(order, results, strict=True):
                launch(x, out)
            found.append({out.shape[1]: out.numpy().tobytes() for out in results})
        for x in rows:
            assert called(softmax_rows, x, torch.empty_like(x))[1] == found[0][x.shape[1]]
    assert found[0] == found[1]


class Tuned:
    """A database with the same plan for every query."""

    def __init__(self, plan):
        self.plan = plan

    def plans(self, query):
        return [TunedPlan(self.plan, lambda: "an entry")]

    def variants(self, query):
        raise AssertionError("nobody asks for tuned constants")


def test_tuned_plans_and_constants_are_not_taken():
    x = torch.randn(37, 5001)
    tuned = vk.Plan({"i": 1}, {"j": 64}, lanes="j", order=("i",))
    with using_deterministic(True):
        plain = called(normalise, x, torch.empty_like(x))
        session = CompilerSession(provider=Tuned(tuned), patience=600.0)
        assert called(normalise, x, torch.empty_like(x), session=session) == plain
    session = CompilerSession(provider=Tuned(tuned), patience=600.0)
    assert called(softmax_rows, x, torch.empty_like(x), session=session)[0] == replace(tuned, warps=1)


def test_a_pinned_plan_is_taken():
    x = torch.randn(37, 5001)
    pinned = Kernel(always.function, replace(always.options, plan=vk.Plan({"i": 1}, {"j": 64}, lanes="j")))
    assert called(pinned, x, torch.empty_like(x))[0].chunks == {"j": 64}


def test_a_kernel_is_deterministic_by_its_option(calibrated):
    x, found = torch.randn(3, 70_001), set()
    for threads, rates in SETTINGS:
        calibrated(rates)
        with using_threads(threads), using_deterministic(False):
            found.add(called(always, x, torch.empty_like(x))[1])
    assert len(found) == 1


def test_calls_follow_torch_until_they_are_set():
    x = torch.randn(3, 70_001)
    kernel, plans = Kernel(softmax_rows.function), []
    try:
        with vk.on_launch(lambda event: plans.append(event.plan)), using_threads(2):
            for on in (False, True, False, True):
                torch.use_deterministic_algorithms(on)
                assert vk.get_deterministic() is on
                kernel(x, torch.empty_like(x))
            vk.set_deterministic(False)
            kernel(x, torch.empty_like(x))
            assert not vk.get_deterministic()
    finally:
        torch.use_deterministic_algorithms(False)
        vk.set_deterministic(None)
    assert plans[::2] == [plans[0]] * 3
    assert plans[1] == plans[3] != plans[0]


@pytest.mark.parametrize("value", [1, "yes", torch.tensor(True)])
def test_other_values_are_refused(value):
    with pytest.raises(vk.OptionError, match="expected True"):
        vk.set_deterministic(value)
    with pytest.raises(vk.OptionError, match="expected True"):
        vk.kernel(deterministic=value)(softmax_rows.function)


def test_limits_follow_from_instructions_alone():
    here = cpu_limits()
    small = replace(here, multiprocessors=1, shared=1 << 18, cache=1 << 20, memory=1 << 30, clock=1e9)
    narrow = replace(small, register_bytes=here.register_bytes // 2)
    assert deterministic_limits(here) == deterministic_limits(small) == deterministic_limits(narrow)
    gpu = limits_of(known_targets()["h100-sxm5-80"])
    assert deterministic_limits(gpu) == gpu


def test_check_and_explain_tell_the_plan_of_calls(calibrated):
    """In processes of their own, which get the limits of a target or slice."""
    x = torch.empty(37, 5001)
    with using_deterministic(True):
        plan, _ = called(softmax_rows, x, torch.empty_like(x))
    given = {"M": 37, "N": 5001}, {"x": "float32", "out": "float32"}, {}, {}
    for cores, rates in SETTINGS[:2]:
        calibrated(rates)
        found = find(Question(softmax_rows, *given, cpu_slice_limits(cores), deterministic=True))
        prepared = KernelPreparer(softmax_rows, *given, deterministic=True).prepare(cpu_slice_limits(cores)).planned
        assert found.plan == prepared.plan == plan_to_json(plan)
        assert found.deterministic
        assert prepared.deterministic


def test_a_deterministic_kernel_is_not_tuned():
    task = Task(f"{__name__}:always", {"M": 3, "N": 100}, {"x": "float32", "out": "float32"})
    with pytest.raises(vk.OptionError, match="pin the best plan"):
        read(task, cpu_limits())


# Updates


def test_sums_of_atomics_have_an_order_on_a_cpu():
    """As many copies whatever the number of threads; one where programs do not meet."""
    index, x = torch.randint(0, 50, (100_003,)), torch.randn(100_003)
    found = set()
    for threads in (1, 2, 3):
        with using_threads(threads), using_deterministic(True):
            plan, bits = called(scatter_sums, index, x, torch.empty(50))
            found.add((plan.private_copies, bits))
    ((copies, _),) = found
    assert copies > 0


def test_updates_in_place_of_what_is_read_are_allowed():
    @vk.kernel(deterministic=True)
    def double(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
        i = vk.tile("N")
        vk.atomic_add(out[i], x[i])

    out = torch.arange(1000.0)
    double(out, out)
    assert torch.equal(out, 2 * torch.arange(1000.0))


def sums_and_their_largest(index: Int[vk.Tensor, "N"], x: Float[vk.Tensor, "M N"], total: Float[vk.Tensor, "M N"],
                           out: Float[vk.Tensor, "M"]):  # fmt: skip
    i = vk.tile("M")
    j = vk.whole("N")
    vk.atomic_add(total[i, index[j]], x[i, j])
    vk.phase()
    out[i] = vk.max(total[i, j], axis=j)


def test_sums_without_an_order_are_refused_at_the_authors_line():
    """A tensor that is read, too, has no copies."""
    values = torch.zeros(10, dtype=torch.int64), torch.ones(3, 10), torch.zeros(3, 10), torch.empty(3)
    with pytest.raises(vk.UnsupportedError, match="`total` is updated here in any order") as raised:
        vk.kernel(deterministic=True)(sums_and_their_largest)(*values)
    assert raised.value.place.line == sums_and_their_largest.__code__.co_firstlineno + 4
    vk.kernel(sums_and_their_largest)(*values)
    assert torch.equal(values[-1], torch.full((3,), 10.0))


@pytest.mark.parametrize("target", ["h100-sxm5-80", "mi300x"])
def test_sums_of_atomics_are_refused_on_gpus(target):
    kernel = Kernel(scatter_sums.function, replace(scatter_sums.options, deterministic=True))
    with pytest.raises(vk.UnsupportedError, match=r"segment_sum"):
        kernel.compile(shapes={"N": 1000, "B": 10}, targets=[target], index="int64", x="float32", total="float32")


@pytest.mark.parametrize("plan", [vk.Pin(private_copies=0), vk.Plan({"n": 64}, lanes="n")])
def test_a_plan_with_atomic_instructions_is_refused(plan):
    kernel = Kernel(scatter_sums.function, replace(scatter_sums.options, deterministic=True, plan=plan))
    with pytest.raises(vk.PlanError, match=r"test_deterministic.py:\d+:\d+: error: .*give it private_copies"):
        kernel(torch.zeros(10, dtype=torch.int64), torch.ones(10), torch.zeros(3))
    kernel(torch.zeros(10, dtype=torch.int64), torch.ones(10, dtype=torch.int64), torch.zeros(3, dtype=torch.int64))


# What another moment might not find


def test_too_little_memory_is_an_error(monkeypatch):
    """Others go down to a plan that takes less."""
    x = torch.randn(1 << 22)
    kernel, values = Kernel(sum_all.function), (x, torch.empty(1))
    monkeypatch.setattr("vkernels.runtime.bound_executable.OWN_BYTES", 0)  # calls keep as little themselves
    with using_deterministic(True), using_threads(2):
        plan, _ = called(kernel, *values)
        assert plan.splits

        def none(size):
            raise OutOfMemoryError(f"{size} bytes")

        monkeypatch.setattr("vkernels.runtime.bound_executable.borrow", none)
        with pytest.raises(OutOfMemoryError, match="another plan could give other bits"):
            called(kernel, *values)


@pytest.mark.parametrize("error", [NoBinaryError("the compiler took too long"), MemoryError()])
def test_a_compiler_that_ran_out_of_time_or_memory_is_an_error(error):
    with pytest.raises(NoBinaryError, match="another plan could give other bits"), shortages(lasting=True):
        raise error
    with pytest.raises(OutOfResources), shortages():
        raise error


PLANNED = """
import vkernels as vk
from vkernels.ir.plan_json import plan_to_json
from vkernels.library.dense import matmul_bias
vk.set_deterministic(True)
(found,) = matmul_bias.compile(shapes=dict(M=65, N=130, K=70), targets=["cpu"], dtype="float32")
print(plan_to_json(found.plan))
"""


@pytest.mark.thorough
def test_processes_choose_the_same_plan():
    """Sets of names have another order in each."""
    found = {
        subprocess.run(
            [sys.executable, "-c", PLANNED],
            env={**os.environ, "PYTHONHASHSEED": str(seed)}, capture_output=True, check=True, timeout=300,
        ).stdout
        for seed in range(3)
    }  # fmt: skip
    assert len(found) == 1
