"""Programs whose calls alternate: found to repeat after several calls, and planned as one iteration."""

from __future__ import annotations

import pytest
import torch

import vkernels.memory
from vkernels.memory import schedule_executor
from vkernels.memory.cuda_device import CudaDevice
from vkernels.memory.op_tracer import OpTracer
from vkernels.memory.periods import MAX_PERIOD, PeriodSearch, joined, part_begins
from vkernels.memory.record import record, recorded_of

from .fake_cuda import FakeCuda, OnGpu
from .meter import Meter
from .programs import Program, assert_same, cnn, transformer

pytestmark = pytest.mark.usefixtures("one_thread")
CALLS = 60


class Alternating(Program):
    """A step in turns with two evaluations, on two batches of different sizes."""

    period = 3

    def call(self, i):
        if i % 3 == 1:
            return self.step(self.x[:3], self.y[: 3 * len(self.y) // len(self.x)])
        if i % 3 == 2:
            torch.manual_seed(i)
            with torch.no_grad():
                return self.shape(self.model(self.x)).square().mean()
        return self.step()


class Accumulating(Program):
    """An optimiser's step after some calls, whose gradients are added up."""

    period = 4

    def call(self, i):
        torch.manual_seed(i)
        loss = torch.nn.functional.cross_entropy(self.shape(self.model(self.x)), self.y)
        loss.backward()
        if i % self.period == self.period - 1:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.detach()


def recorded(calls):
    """What is watched of calls, each a list of operations: the sizes that they make."""
    with OpTracer() as tracer:
        for sizes in calls:
            for size in sizes:
                torch.ones(size)
            tracer.end_iteration()
    return tracer.watched


@pytest.mark.parametrize(
    ("calls", "period"),
    [
        ("AA", 1), ("AB", None), ("ABA", None), ("ABAB", 2), ("XABAB", 2), ("ABCABC", 3), ("AABAAB", 3), ("AAB", None),
        ("ABCDEFGHABCDEFGH", 8), ("ABCDEFGH", None), ("ABCDEFGHI", 1), ("ABABCABABABCAAAC", 1),
    ],
)  # fmt: skip
def test_calls_repeat_after_the_least_number_that_fits(calls, period):
    assert PeriodSearch().period_of(recorded([[ord(each)] for each in calls])) == period


def test_calls_that_deviate_at_equal_distances_are_searched_for_a_longer_period():
    search = PeriodSearch()
    assert not search.deviates(3), "once is no period"
    assert search.deviates(7)
    assert search.period_of(recorded([[ord(each)] for each in "AA"])) is None
    assert search.period_of(recorded([[ord(each)] for each in "AAABAAAB"])) == 4
    assert not search.deviates(8 + 2 * MAX_PERIOD)


def test_calls_joined_are_recorded_as_one_long_call_is():
    def part(tensors):
        tensors.append(tensors[-1] * 2)
        del tensors[0]

    def other(tensors):
        tensors[-1] += tensors[0].sum()

    def traced(calls):
        tensors = [torch.ones(5), torch.ones(5)]
        with OpTracer() as tracer:
            for call in calls:
                for each in call:
                    each(tensors)
                tracer.end_iteration()
        return tracer.watched

    apart, whole = traced([[part], [other, part]] * 3), traced([[part, other, part]] * 3)
    assert part_begins(apart.iterations[-2:]) == [0, 1]
    one, two = recorded_of(joined(apart, 2), "step"), recorded_of(joined(whole, 1), "step")
    assert (one.reads, one.writes) == (two.reads, two.writes)
    assert one.trace.lifetimes() == two.trace.lifetimes()
    assert [op.name for op in one.trace.operations] == [op.name for op in two.trace.operations]


@pytest.mark.parametrize("flash", [False, pytest.param(True, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("kind", [Alternating, Accumulating])
@pytest.mark.parametrize(
    ("make", "part"), [(cnn, 0.6), pytest.param(transformer, 0.5, marks=pytest.mark.thorough)]
)  # fmt: skip
def test_calls_in_turns_follow_one_plan_with_the_same_bits(kind, make, part, flash, tmp_path):
    def run(program, call):
        losses = []
        for i in range(CALLS):
            losses.append(call(i).item())
            if i % 5 == 0:  # between calls the program may write its tensors
                with torch.no_grad():
                    for value in program.model.parameters():
                        value.mul_(0.99)
        return losses

    plain, program, other = kind(make), kind(make), kind(make)
    expected = run(plain, plain.call)
    peak = record(lambda: [other.call(i) for i in range(kind.period)] and None).peak
    more = {"flash": tmp_path, "host_bytes": peak // 8} if flash else {}
    step = vkernels.memory.limit(program.call, int(peak * part), watch=True, **more)
    with Meter([*program.state().values(), program.x, program.y], step.on_host) as meter:
        assert run(program, step) == expected
    assert_same(program, plain)
    report = step.report
    assert report.period == kind.period
    assert report.planned >= CALLS - 32
    assert report.strays == 0
    assert (report.flash > 0) == flash
    assert flash or meter.peak <= int(peak * part)  # what was on flash is in memory of the host that it does not know
    step.close()
    assert_same(program, plain)
    assert [step(i).item() for i in range(4)] == [plain.call(i).item() for i in range(4)]


class InTwo(Accumulating):
    period = 2


@pytest.mark.parametrize(
    "seed", [0, 1, pytest.param(2, marks=pytest.mark.thorough), pytest.param(3, marks=pytest.mark.thorough)]
)
def test_calls_in_turns_have_the_same_bits_on_a_gpu_that_does_everything_late(seed, monkeypatch):
    gpu, plain, other = FakeCuda(seed), InTwo(cnn), InTwo(cnn)
    monkeypatch.setattr(schedule_executor, "device_of", lambda storages: CudaDevice(gpu.device, gpu))
    peak = record(lambda: [other.call(i) for i in range(2)] and None).peak
    expected = [plain.call(i).item() for i in range(11)]
    with OnGpu(gpu):
        program = InTwo(cnn)
        step = vkernels.memory.limit(program.call, int(peak * 0.6))
        losses = [step(i) for i in range(11)]
        assert [loss.item() for loss in losses] == expected
    assert (step.report.period, step.report.planned, step.report.strays) == (
        2,
        5,
        0,
    )  # from the sixth on: the optimiser is initialised in the second
