"""Calls of a few kinds in any order: not watched, once each has been watched after each."""

from __future__ import annotations

import random

import pytest
import torch

from vkernels.memory import limit
from vkernels.memory.call_order import CallOrder, kinds_of, remaining
from vkernels.memory.landmarks import Passage

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
