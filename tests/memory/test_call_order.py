"""Calls of a few kinds in any order: not watched, once each has been watched after each."""

from __future__ import annotations

import random

import pytest
import torch

from vkernels.memory import limit
from vkernels.memory.call_order import CallOrder, kinds_of, remaining
from vkernels.memory.landmarks import Passage
from vkernels.memory.op_tracer import Iteration, Made, RecordedOp, Storage, Watched
from vkernels.memory.periods import bytes_at
from vkernels.memory.saved_uses import SavedUse, tree_of

from .layers import ROWS, WIDTH, Layers
from .meter import Meter

pytestmark = pytest.mark.usefixtures("one_thread")


class Alternates(Layers):
    """Steps of the optimiser and longer batches in an order without a period; `bigger`: calls with a new one."""

    def __init__(self, bigger=()):
        super().__init__()
        self.order, self.bigger = random.Random(20261128), bigger

    def step(self, i):
        draw = self.order.random()
        rows = 6 * ROWS if i in self.bigger else 2 * ROWS if draw < 0.4 else ROWS
        self.modes.append(torch._C._len_torch_dispatch_stack())
        x = y = torch.randn(rows, WIDTH, generator=self.draw)
        for part in self.parts:
            y = part(y)
        loss = (y - x).square().mean()
        loss.backward()
        if draw > 0.5:
            self.opt.step()
            self.opt.zero_grad()
        return loss.detach()


def test_kinds_in_any_order_are_not_watched_and_keep_the_limit():
    plain, program = Alternates((90,)), Alternates((90,))
    with Meter(plain.state()) as meter:
        expected = [plain.step(i).item() for i in range(90)]
        most = meter.peak
        expected += [plain.step(i).item() for i in range(90, 96)]
    step = limit(program.step, most)
    with Meter(program.state(), step.on_host) as limited:
        found = [step(i).item() for i in range(96)]
    assert found == expected
    assert all(map(torch.equal, plain.state(), program.state()))
    assert limited.peak <= most < meter.peak
    assert step.report.planned > 40
    assert program.modes[40:90].count(1) > 30
    assert "differs" in step.report.why or "called there" in step.report.why


class Skips(Layers):
    """Steps of the optimiser in an order without a period, as where a scaler finds infinities; large activations."""

    def __init__(self):
        super().__init__()
        self.order = random.Random(20261128)

    def step(self, i):
        self.modes.append(torch._C._len_torch_dispatch_stack())
        x = y = torch.randn(8 * ROWS, WIDTH, generator=self.draw)
        for part in self.parts:
            y = part(y)
        loss = (y - x).square().mean()
        loss.backward()
        if self.order.random() < 0.5:
            self.opt.step()
            self.opt.zero_grad()
        return loss.detach()


def kept(make, share, calls):
    """Run a program under a limit of a share of its peak, and compare: the step, its program, and their saved tensors'
    bytes on the host by call."""
    plain, program, moved = make(), make(), []
    with Meter(plain.state()) as meter:
        expected = [plain.step(i).item() for i in range(calls)]
    step = limit(program.step, int(share * meter.peak))
    with Meter(program.state(), step.on_host) as limited:
        found = []
        for i in range(calls):
            found.append(step(i).item())
            moved.append(step.report.out_bytes)
    assert found == expected
    assert all(map(torch.equal, plain.state(), program.state()))
    assert limited.peak <= share * meter.peak
    return step, program, moved


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.9, 0.8])
def test_kinds_in_any_order_leave_saved_tensors_on_the_host(share):
    step, program, moved = kept(Skips, share, 140)
    assert step.report.planned > 20, step.report.why
    assert program.modes[-20:].count(1) > 15
    assert moved[-1] > moved[-2] > moved[-3]


@pytest.mark.parametrize("share", [0.8, 0.7])
def test_calls_that_repeat_after_other_numbers_while_ways_are_tried(share):
    kept(Alternates, share, 50)


@pytest.mark.slow
def test_calls_of_kinds_whose_losses_are_held_are_not_watched():
    program, losses = Skips(), []
    step = limit(program.step, 850_000)
    for i in range(140):
        losses.append(step(i))
    assert program.modes[-20:].count(0) > 15
    assert step.report.planned > 20


def test_what_a_call_that_differs_has_fetched_leaves_again():
    kept(Skips, 0.7, 45)


def test_bytes_of_recorded_calls():
    both = [Iteration([RecordedOp("a", 0.0, (0,), (1,)), RecordedOp("b", 0.0, (1, 3), (2,))]) for _ in range(2)]
    both[1].operations[0] = RecordedOp("a", 0.0, (4,), (5,))
    storages = [
        Storage(1, None), Storage(10, Made(0, 0, 0), (1, 0)), Storage(100, Made(0, 1, 0)),
        Storage(7, None, kind="cuda"), Storage(1000, None, (1, 1)), Storage(10000, Made(1, 0, 0), (2, 0)),
    ]  # fmt: skip
    assert bytes_at(Watched(both, storages), "cpu") == [11, 111, 11101, 10101]


def test_what_calls_save_is_joined_until_they_differ():
    seed = random.randrange(1 << 32)
    print("seed", seed)
    draw = random.Random(seed)

    def use():
        return SavedUse(draw.choice((-1, 8, 16)), draw.random() < 0.3, draw.choice((-1, 0, 1)), draw.randrange(100))

    for _ in range(50):
        calls = [[use() for _ in range(draw.randrange(6))] for _ in range(4)]
        tree = tree_of(calls)
        for call in calls:
            at = tree
            for own in call:
                found, at = at[own.size]
                assert found.is_away >= own.is_away
                assert found.state in (-1, own.state)
                assert found.live >= own.live
    assert tree_of([calls[-1]] * 2) == tree_of([calls[-1]])


def passage(*landmarks, kept=0, moved=False, nodes=3):
    return Passage((), landmarks, (0,) * len(landmarks), nodes, moved, kept)


def test_kinds_are_known_where_each_comes_again_and_nothing_moves():
    one, other = passage((1, int), (2, int)), passage((1, int), (3, float))
    order = kinds_of([one, other, other, one] * 4)
    assert len(order.passages) == 2
    assert order.knows(order.begin(()))
    alternating = kinds_of([one, other] * 8)
    possible = alternating.begin(())
    assert len(remaining(possible, 0, (1, int))) == 2
    assert remaining(possible, 1, (3, float)) == [other]
    assert not alternating.knows(possible)  # two that are alike have never followed one another
    for call in (other, other, one, one):
        alternating.came(next(each for each in possible if each == call), fits=True)
    assert alternating.knows(possible)
    alternating.came(None, fits=True)
    assert not alternating.knows(possible)
    for calls in ([one] * 16, [one, other] * 4, [one] * 15 + [other]):
        assert kinds_of(calls) is None
    assert kinds_of([one, other] * 7 + [passage((1, int), (2, int), moved=True), other]) is None
    assert kinds_of([one, other] * 7 + [one, passage((1, int), (3, float), kept=8)]) is None


def test_calls_of_a_period_come_in_turn():
    one, other = passage((1, int)), passage((2, int))
    order = CallOrder([one, other])
    assert [order.begin(()) for _ in range(3)] == [[one], [other], [one]]
    assert order.knows([one])
    assert order.begin((1,)) == []
    assert order.begin(()) == [one]
