"""Saved tensors on the host, of calls that are not watched: the same bits within the limit."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._C import _len_torch_dispatch_stack

import vkernels.memory
from vkernels.memory.cpu_device import CpuDevice
from vkernels.memory.host_heap import HostHeap
from vkernels.memory.op_tracer import OpTracer
from vkernels.memory.saved_tensors import RecordedUse, SavedRecorder, SavedTensors
from vkernels.memory.saved_uses import SavedUse

from .matrix_programs import CarriedGru, Cnn, Gpt, GptAccumulation, GradientPenalty, Unet
from .meter import Meter

pytestmark = pytest.mark.usefixtures("one_thread")
CALLS = 14


def run(make, limit_of=None, calls=CALLS, **more):
    """Losses, what was learnt, the peak, the peak of each call, and the limited step."""
    torch.manual_seed(1)
    program, losses, peaks = make(), [], []
    step = program.step if limit_of is None else vkernels.memory.limit(program.step, limit_of, **more)
    for i in range(calls):
        torch.manual_seed(i)
        with Meter(program.state(), getattr(step, "on_host", lambda address: False)) as meter:
            losses.append(step(i).item())
        peaks.append(meter.peak)
    return losses, [value.clone() for value in program.state()], peaks, step


def check(make, part, calls=CALLS, **more):
    losses, learnt, peaks, _ = run(make, calls=calls)
    size = int(part * max(peaks))
    found, ours, most, step = run(make, size, calls, **more)
    assert found == losses
    assert all(map(torch.equal, ours, learnt))
    assert max(most) <= size
    return step


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("make", "part"),
    [
        (CarriedGru, 0.7), (Cnn, 0.6), (GradientPenalty, 0.8),
        pytest.param(Gpt, 0.7, marks=pytest.mark.thorough), pytest.param(Gpt, 0.62, marks=pytest.mark.thorough),
        pytest.param(Unet, 0.65, marks=pytest.mark.thorough),
        pytest.param(GptAccumulation, 0.7, marks=pytest.mark.thorough),
    ],
)  # fmt: skip
def test_saved_tensors_leave_until_the_limit_is_kept(make, part):
    step = check(make, part, {GptAccumulation: 30, GradientPenalty: 16}.get(make, 11))
    assert step._unwatched is not None, step.report.why
    assert step.report.planned >= 2
    assert step.report.changed == 0
    assert step.layout is None


@pytest.mark.parametrize("more", [{"watch": True}, {"strict": True}])
def test_where_calls_are_watched_they_follow_a_plan(more):
    step = check(Cnn, 0.7, 6, **more)
    assert step._unwatched is None
    assert step.report.planned == 3
    assert step.layout is not None


def test_without_room_on_the_host_saved_tensors_stay():
    x = torch.randn(5, requires_grad=True, generator=torch.Generator().manual_seed(6))
    saved = hooks([SavedUse(20, True)] * 2, capacity=0)
    with saved.running(0):
        assert torch.equal(gradients(lambda x: x.exp().exp().sum(), x), gradients(lambda x: x.exp().exp().sum(), x))
    assert saved.changed == "the host has no room for saved tensors"
    assert saved.out_bytes == 0


def test_where_torch_forbids_hooks_there_are_none():
    layer = nn.Linear(64, 64)
    values = {name: value.detach() for name, value in layer.named_parameters()}

    def step(i):
        x = torch.ones(256, 64)
        loss = lambda values: torch.func.functional_call(layer, values, (x.sin().tanh(),)).tanh().square().sum()  # noqa: E731
        return sum(each.sum() for each in torch.func.grad(loss)(values).values())

    with Meter() as meter:
        expected = step(0)
    limited = vkernels.memory.limit(step, int(0.9 * meter.peak))
    for i in range(8):
        assert torch.equal(limited(i), expected)
    assert limited.report.out_bytes > 0


class Larger(Gpt):
    """A batch of another size in one call."""

    def batch(self, i):
        self.rows = 6 if i == 10 else 4
        return super().batch(i)


@pytest.mark.slow
def test_a_larger_batch_is_watched_and_stays_within_the_limit():
    losses, learnt, peaks, _ = run(Larger, calls=12)
    size = int(0.75 * peaks[9])
    found, ours, most, step = run(Larger, size, 12)
    assert found == losses
    assert all(map(torch.equal, ours, learnt))
    assert max(most) <= size
    assert step.report.changed == 1
    assert step._unwatched is not None


def hooks(uses, capacity=float("inf")):
    device = CpuDevice()
    return SavedTensors(device, HostHeap(device, capacity), [[uses]])


def gradients(function, x):
    (found,) = torch.autograd.grad(function(x), x)
    return found


def looks(x):
    """Saves views of one storage, with strides, parts of it twice, and a tensor that needs no gradient."""
    y = x * 2
    left, right = y.t()[:3], y[:, 1:]
    return (left * right.t()[:3]).sum() + (left.exp() * torch.ones_like(left)).sum() + (y * y).sum()


@pytest.mark.parametrize("is_known", [False, True])
def test_saved_views_come_back_with_their_values_and_strides(is_known):
    x = torch.randn(4, 5, requires_grad=True, generator=torch.Generator().manual_seed(3))
    expected = gradients(looks, x)
    uses = []
    if is_known:
        device = CpuDevice()
        with OpTracer() as tracer:
            recorder = SavedRecorder(device, HostHeap(device, float("inf")), tracer)
            with recorder.running(0):
                assert torch.equal(gradients(looks, x), expected)
            tracer.end_iteration()
        (uses,) = recorder.all(1, [0], [0])
        assert any(use.is_away for use in uses)
        assert any(use.state >= 0 for use in uses)
    saved = hooks(uses)
    with saved.running(0):
        assert torch.equal(gradients(looks, x), expected)
    assert saved.out_bytes > 0
    assert bool(saved.changed) != is_known
    assert _len_torch_dispatch_stack() == 0


def test_a_storage_that_is_written_between_has_several_states():
    def step(x):
        one, two = torch.ops.aten.unsafe_chunk(x * 3, 2)
        a = one.sigmoid_()
        b = two.tanh_()
        return (a * b).sum() + (a * a).sum()

    x = torch.randn(6, requires_grad=True, generator=torch.Generator().manual_seed(4))
    expected, device = gradients(step, x), CpuDevice()
    with OpTracer() as tracer:
        recorder = SavedRecorder(device, HostHeap(device, float("inf")), tracer)
        with recorder.running(0):
            assert torch.equal(gradients(step, x), expected)
        tracer.end_iteration()
    saved = hooks(recorder.all(1, [0], [0])[0])
    with saved.running(0):
        assert torch.equal(gradients(step, x), expected)


def test_a_graph_may_be_used_twice():
    x = torch.randn(5, requires_grad=True, generator=torch.Generator().manual_seed(5))
    saved = hooks([SavedUse(20, True)] * 2)
    with saved.running(0):
        y = x.exp().exp()
        once = torch.autograd.grad(y.sum(), x, retain_graph=True)[0]
        assert torch.equal(torch.autograd.grad(y.sum(), x)[0], once)
    assert (saved.out_bytes, saved.back_bytes, saved.changed) == (40, 80, "")


@pytest.mark.parametrize("seed", range(5))
def test_chosen_tensors_keep_the_limit_and_small_ones_stay_first(seed):
    draw, device = torch.Generator().manual_seed(seed), CpuDevice()
    recorder, count = SavedRecorder(device, HostHeap(device, 0), OpTracer()), 20
    uses = []
    for storage in range(12):
        size, start, end = (
            int(torch.randint(low, high, (), generator=draw)) for low, high in ((1, 99), (0, 9), (9, 20))
        )
        uses += [RecordedUse(size, storage, start, end)] * (1 + storage % 2)
    recorder.calls.append([*uses, RecordedUse(-1, -1, 0, 0)])
    live, limit = [100] * count, 400
    (chosen,) = recorder.chosen(1, [0], live, limit)
    staying = {use.storage: use for use, each in zip(uses, chosen, strict=False) if not each.is_away}
    away = {use.storage: use for use, each in zip(uses, chosen, strict=False) if each.is_away}
    assert not {*staying} & {*away}
    assert staying
    assert away
    for at in range(count):
        assert live[at] + sum(each.size for each in staying.values() if each.start <= at <= each.end) <= limit
    assert min(each.size for each in staying.values()) <= min(each.size for each in away.values())
    assert not chosen[-1].is_away


def test_modules_of_a_program_keep_no_hooks():
    layer = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64))

    def step(i):
        layer.zero_grad()
        layer(torch.ones(256, 64)).square().sum().backward()

    with Meter() as meter:
        step(0)
    limited = vkernels.memory.limit(step, int(0.8 * meter.peak))
    for i in range(12):
        limited(i)
    assert limited._unwatched is not None
    assert not layer._forward_pre_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks
