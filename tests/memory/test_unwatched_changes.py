"""Programs that change after they are no longer watched: the limit is kept, and nothing outlives its use."""

from __future__ import annotations

import gc
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.optim.optimizer import _global_optimizer_pre_hooks, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import _len_torch_dispatch_stack

import vkernels as vk
import vkernels.memory
from vkernels.memory.cpu_device import CpuDevice
from vkernels.memory.held_results import HeldResults
from vkernels.memory.host_heap import HostHeap
from vkernels.memory.landmarks import passing
from vkernels.memory.saved_tensors import SavedTensors
from vkernels.memory.saved_uses import SavedUse

from .layers import ROWS, WIDTH, Layers
from .meter import Meter

pytestmark = pytest.mark.usefixtures("one_thread")


def metered_all(call, program, on_host, calls, between=lambda i, result: None):
    """Losses, and the most bytes on the device by call, of one meter: what earlier calls have left counts."""
    losses, peaks = [], []
    with Meter(program.state(), on_host) as meter:
        for i in calls:
            meter.peak = 0
            result = call(i)
            losses.append(program.loss if result.numel() > 1 else result.item())
            peaks.append(meter.peak)
            between(i, result)
    return losses, peaks


def check(make, between, share, calls=12):
    """Run a program with a limit of a share of its first peaks, and without one; return the limited step."""
    plain, other, kept = make(), make(), ([], [])
    expected, without = metered_all(
        plain.step, plain, lambda address: False, range(calls), lambda i, result: between(plain, i, result, kept[0])
    )
    most = int(share * max(without[:5]))
    step = vkernels.memory.limit(other.step, most)
    found, peaks = metered_all(
        step, other, step.on_host, range(calls), lambda i, result: between(other, i, result, kept[1])
    )
    assert found == expected
    assert all(map(torch.equal, plain.state(), other.state()))
    assert max(peaks) <= most < max(without)
    return step


class Accumulates(Layers):
    """Steps of the optimiser, and gradients set to nothing, only now and then from call 6 on."""

    def step(self, i):
        x = torch.randn(ROWS, WIDTH, generator=self.draw)
        y = x
        for part in self.parts:
            y = part(y)
        loss = (y - x).square().mean()
        loss.backward()
        if i < 6 or i % 4 == 3:
            self.opt.step()
            self.opt.zero_grad()
        return loss.detach()


def test_a_call_that_leaves_more_behind_is_followed_by_one_that_is_watched():
    step = check(Accumulates, lambda *_: None, 1.02)
    assert step.report.changed >= 1


class Predicts(Layers):
    """Returns what it predicts."""

    def step(self, i):
        x = torch.randn(8 * ROWS, WIDTH, generator=self.draw)
        with torch.no_grad():
            y = x
            for part in self.parts:
                y = part(y)
        self.loss = y.square().mean().item()
        return y


def test_results_that_the_caller_holds_count():
    def hold(program, i, result, kept):
        kept += [result] if i > 5 else []

    step = check(Predicts, hold, 1.05)
    assert step.report.why == "more results of earlier calls are held than there is room for"


def test_calls_whose_losses_are_held_are_not_watched():
    program, losses = Layers(), []
    step = vkernels.memory.limit(program.step, 1 << 20)
    for i in range(8):
        losses.append(step(i))
    assert step._unwatched is not None
    assert not any(program.modes[6:])


def test_held_results_are_counted_once_and_until_they_die():
    results, x = HeldResults("cpu"), torch.ones(10)
    y = torch.ones(5)
    results.note((x, x[2:], {"a": [y, None, 1]}))
    assert results.bytes() == 60
    assert results.exceed(59)
    assert not results.exceed(60)
    del y
    assert not results.exceed(40)
    assert [each.nbytes() for each in results.storages()] == [40]


@pytest.mark.parametrize("is_away", [False, True])
def test_a_graph_that_is_dropped_before_backward_is_freed(is_away):
    device = CpuDevice()
    saved = SavedTensors(device, HostHeap(device, float("inf")), [[[SavedUse(400, is_away)] * 2]])
    gc.disable()
    try:
        with saved.running(0):
            y = torch.ones(100, requires_grad=True).exp()
            z = y.tanh()
        references = [StorageWeakRef(each.untyped_storage()) for each in (y, z)]
        del y, z
        assert [each.expired() for each in references] == [True, True]
    finally:
        gc.enable()


class Raises(Layers):
    """Does not get to its backward in two calls."""

    def step(self, i):
        if i in (9, 10):
            self.inside = lambda i: 1 / 0 if len(self.modes) > 2 * i + 2 else self.modes.append(0)
        try:
            return super().step(i)
        except ZeroDivisionError:
            self.inside = lambda i: None
            return torch.zeros(())


def test_what_a_call_has_made_before_it_raised_is_gone():
    step = check(Raises, lambda *_: None, 0.8, 14)
    assert step.report.changed >= 1


class WithoutModules:
    """Layers that are no modules, of a batch that is drawn in the call: larger ones from call 10 on."""

    loss = 0.0

    def __init__(self, learns=True):
        self.draw, self.learns, self.modes = torch.Generator().manual_seed(7), learns, []
        self.weights = [torch.randn(WIDTH, WIDTH, generator=self.draw).div(8) for _ in range(4)]
        for each in self.weights:
            each.requires_grad_(learns)
        self.opt = torch.optim.SGD(self.weights, 0.1)

    def step(self, i):
        self.modes.append(_len_torch_dispatch_stack())
        x = y = torch.randn(5 * ROWS if i > 9 else 3 * ROWS, WIDTH, generator=self.draw)
        for each in self.weights:
            y = (y @ each).tanh()
        loss = (y - x).square().mean()
        if self.learns:
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.detach()

    def state(self):
        return [each.detach() for each in self.weights]


@pytest.mark.parametrize("share", [1.05, 0.85])
def test_larger_batches_without_modules_are_noticed_by_what_is_saved(share):
    step = check(WithoutModules, lambda *_: None, share)
    assert step.report.planned > 2
    assert step.report.why == "saved tensor 0 has another size"
    assert step.layout is None


def test_calls_that_show_no_shapes_are_watched():
    program = WithoutModules(learns=False)
    step = vkernels.memory.limit(program.step, 1 << 20)
    for i in range(8):
        step(i)
    assert all(program.modes)
    assert step.report.planned == 5


def test_hooks_of_optimisers_stay_where_they_are_while_another_thread_calls_them():
    hooks, weight = _global_optimizer_pre_hooks, torch.ones(3, requires_grad=True)
    optimiser, seen, before = torch.optim.SGD([weight]), [], []
    with passing(lambda landmark, given: None):
        before += hooks

    def trains(optimiser, args, kwargs):
        with passing(lambda landmark, given: seen.append(landmark)):
            assert [*hooks][: len(before)] == before

    own = register_optimizer_step_pre_hook(trains)
    try:
        for _ in range(2):
            with ThreadPoolExecutor(1) as pool:
                pool.submit(optimiser.step).result()
    finally:
        own.remove()
    assert [*hooks] == before
    assert not seen


def larger(i, calls):
    """Operations without gradients, between modules, that no mode of functions sees."""
    if i in calls:
        with torch._C.DisableTorchFunction():
            kept = [torch.ones(1 << 16) for _ in range(4)]
            assert sum(each.sum() for each in kept) == 1 << 18


def warned(program, most, calls):
    """Run a program with a limit: the step, and the messages of its warnings."""
    step = vkernels.memory.limit(program.step, most)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for i in range(calls):
            torch.ones(1 << 20)  # outside
            step(i)
    return step, [str(each.message) for each in found if each.category is vk.OverLimitWarning]


def test_a_call_above_the_limit_is_noticed_by_the_allocator_and_all_are_watched_then(monkeypatch):
    def allocated(device, anew=False):
        if anew:
            meter.peak = meter.now()
        return meter.now(), meter.peak

    monkeypatch.setattr(CpuDevice, "allocated", allocated)
    program = Layers(inside=lambda i: larger(i, (9, 12)))
    with Meter(program.state()) as meter:
        step, messages = warned(program, 1 << 20, 14)
    assert len(messages) == 1
    assert "a call that was not watched had" in messages[0]
    assert "all are watched from now on" in messages[0]
    assert step.report.planned >= 6
    assert all(mode > 1 for mode in program.modes[20:])
    assert all(mode == 1 for mode in program.modes[6:20])


def test_a_check_notices_that_calls_need_more():
    program = Layers(inside=lambda i: larger(i, range(6, 99)))
    _, messages = warned(program, 1 << 20, 24)
    assert len(messages) == 1
    assert "a call needs more than those before, of which 16 were not watched" in messages[0]
    assert all(program.modes[2 * 19 :])


def test_checks_go_on():
    program = Layers()
    step = vkernels.memory.limit(program.step, 1 << 30)
    for i in range(600):
        step(i)
    watched = [i for i in range(3, 600) if program.modes[2 * i]]
    assert [after - before for before, after in pairwise(watched)] == [33, 65, 129, 129, 129]


def test_landmarks_show_hooks_states_of_optimisers_and_what_transforms_hide():
    layer, found = torch.nn.Linear(3, 3), []
    optimiser = torch.optim.Adam(layer.parameters())

    def passes(rows):
        with passing(lambda landmark, given: found.append(landmark[3:])):
            torch.func.vmap(layer)(torch.ones(rows, 3)).sum().backward()
            optimiser.step()

    passes(4)
    passes(5)
    layer.register_forward_hook(lambda *args: None)
    passes(5)
    (before, first), (more, other), (hooked, last) = found[:2], found[2:4], found[4:]
    assert (before[2][0], more[2][0]) == ((4, 3), (5, 3))
    assert (more[0], hooked[0]) == ((True, 0), (True, 1))
    assert (first[0], other[0], last[0]) == ((1, 0), (1, 2), (1, 2))
