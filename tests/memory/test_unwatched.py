"""Calls that are not watched because nothing has to move, and those among them that differ."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode, _len_torch_dispatch_stack

import vkernels.memory
from vkernels.memory.landmarks import Passage, agree, alike, arguments_of, passing

from .layers import ROWS, WIDTH, Layers, metered
from .matrix_programs import Carried, Gpt, GptAccumulation, Unet
from .meter import Meter

pytestmark = pytest.mark.usefixtures("one_thread")


def run(calls, bytes=1 << 30, **program):
    """Run a program with a limit and without one: the limited step, its program, and peaks of both."""
    plain, other = Layers(**program), Layers(**program)
    step = vkernels.memory.limit(other.step, bytes)
    expected, without = metered(plain.step, plain, lambda address: False, range(calls))
    found, peaks = metered(step, other, step.on_host, range(calls))
    assert found == expected
    assert all(map(torch.equal, plain.state(), other.state()))
    return step, other, peaks, without


def test_calls_that_fit_are_not_watched_and_seldom_checked():
    program = Layers()
    step = vkernels.memory.limit(program.step, 1 << 30)
    for i in range(60):
        step(i)
    watched = [i for i in range(60) if program.modes[2 * i]]
    assert watched == [0, 1, 2, 3 + 16, 3 + 16 + 33]
    assert (step.report.planned, step.report.changed, step.report.period) == (57, 0, 1)
    assert step.report.out_bytes == step.report.arena == 0 < step.report.peak
    assert step.layout is None


def test_a_strict_limit_watches_every_operation():
    program = Layers()
    step = vkernels.memory.limit(program.step, 1 << 30, strict=True)
    for i in range(8):
        step(i)
    assert all(program.modes)


@pytest.mark.slow
@pytest.mark.sample(2)
@pytest.mark.parametrize("make", [Gpt, GptAccumulation, Carried, Unet])
def test_the_exact_peak_is_enough_and_the_bits_are_the_same(make):
    plain, program = make(), make()
    with Meter(plain.state()) as meter:
        expected = [plain.step(i).item() for i in range(12)]
    step = vkernels.memory.limit(program.step, int(1.1 * meter.peak))
    with Meter(program.state(), step.on_host) as limited:
        found = [step(i).item() for i in range(12)]
    assert found == expected
    assert all(map(torch.equal, plain.state(), program.state()))
    assert limited.peak <= 1.1 * meter.peak
    assert step.report.planned > 0
    assert step.layout is None


def test_a_larger_batch_is_watched_from_its_beginning_on_and_stays_within_the_limit():
    rows = lambda i: 4 * ROWS if i in (6, 9) else ROWS  # noqa: E731
    *_, without = run(12, rows=rows)
    most = (without[5] + without[6]) // 2
    step, program, peaks, _ = run(12, most, rows=rows)
    assert max(peaks) <= most < without[6]
    assert step.report.changed >= 1
    assert "randn was not called there before, or with other sizes" in step.report.why
    assert program.modes[2 * 6 : 2 * 7] == [1, 2]
    assert program.modes[2 * 5 : 2 * 6] == [1, 1]
    assert step.report.out_bytes > 0


def test_more_operations_between_modules_are_noticed_before_they_run():
    extra = []

    def inside(i):
        if i == 6:
            extra.append(torch.ones(8, requires_grad=True) * 2)

    step, program, _, _ = run(9, inside=inside)
    assert program.modes[2 * 6 : 2 * 7] == [1, 2]
    assert "ones was not called there before" in step.report.why
    assert (step.report.planned, step.report.changed) == (5, 1)


def test_arguments_of_other_shapes_are_watched_from_the_beginning():
    modes, layer = [], nn.Linear(WIDTH, WIDTH)

    def step(x, more=1.0):
        modes.append(_len_torch_dispatch_stack())
        return layer(x * more).sum()

    step = vkernels.memory.limit(step, 1 << 30)
    for rows in (4, 4, 4, 4, 4, 5, 4, 4):
        step(torch.ones(rows, WIDTH))
    assert modes == [1, 2, 2, 0, 0, 1, 1, 0]
    step(torch.ones(4, WIDTH), more=2.0)
    assert modes[-1] == 1
    assert step.report.why == "the arguments have other shapes or values"


def test_modes_of_the_program_stay_where_they_are():
    class Seen(TorchDispatchMode):
        count = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.count += 1
            return func(*args, **(kwargs or {}))

    layer, seen, depths = nn.Linear(WIDTH, WIDTH), Seen(), []

    def step(rows):
        x = torch.ones(rows[0], WIDTH)
        with seen:
            x = layer(x)
            depths.append(_len_torch_dispatch_stack())
        depths.append(_len_torch_dispatch_stack())
        return x

    step, before = vkernels.memory.limit(step, 1 << 30), 0
    for rows in ([4], [4], [4], [4], [7], [4]):
        step(rows)
        assert seen.count > before
        before = seen.count
        assert _len_torch_dispatch_stack() == 0
    assert depths[6:] == [1, 0, 2, 1, 2, 1]


@pytest.mark.slow
def test_memory_that_grows_is_noticed():
    kept = []

    def inside(i):
        if i > 5:
            with torch._C.DisableTorchFunction():  # unseen
                kept.append(torch.zeros(1000))

    step, *_ = run(80, inside=inside)
    assert step.report.changed == 0
    assert step.report.planned < 77


def test_what_the_step_raises_passes_through_and_the_next_call_is_as_before():
    program = Layers(inside=lambda i: 1 / (i - 6))
    step = vkernels.memory.limit(program.step, 1 << 30)
    for i in range(9):
        if i == 6:
            with pytest.raises(ZeroDivisionError):
                step(i)
        else:
            step(i)
    assert _len_torch_dispatch_stack() == 0
    assert (step.report.planned, step.report.changed) == (5, 1)


def passage(arguments, *landmarks):
    return Passage(arguments_of(arguments, {}), landmarks, (0,) * len(landmarks), 3, False, 0)


def test_what_calls_have_in_common():
    x, module, other = torch.ones(2), (1, nn.Linear, 0), (2, nn.Linear, 0)
    common = alike(passage((x, 1, "a"), module, module), passage((x, 2, "a"), module, other))
    assert common.landmarks == (module, (0, nn.Linear, 0))
    assert agree(common.arguments, arguments_of((x + 1, 77, "a"), {}))
    for different in ((x, 1.5, "a"), (x, 1, "b"), (torch.ones(3), 1, "a"), (x, 1)):
        assert not agree(common.arguments, arguments_of(different, {}))
    assert alike(passage((x,), module), passage((x,), module, module)) is None
    assert alike(passage((x,), module), passage((x,), (1, nn.Linear, 5))) is None
    assert alike(passage(({"a": [x]},), module), passage(({"a": [x, x]},), module)) is None


def test_landmarks_are_modules_and_optimisers_with_the_nodes_before_them():
    layer, found = nn.Linear(3, 3), []
    opt = torch.optim.SGD(layer.parameters(), 0.1)
    with passing(lambda landmark, given: found.append(landmark)):
        x = torch.ones(2, 3, requires_grad=True) * 2
        layer(x).sum().backward()
        opt.step()
    assert [(each[0], each[1]) for each in found] == [(id(layer), nn.Linear), (id(opt), torch.optim.SGD)]
    assert [each[2] for each in found] == [1, 4]
    assert found[0][5] == (x.shape, x.dtype, True)
