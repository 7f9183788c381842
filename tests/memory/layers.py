"""A few layers that are trained, and a meter for each of their calls."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils._python_dispatch import _len_torch_dispatch_stack

from .meter import Meter

WIDTH, ROWS = 64, 32


class Layers:
    """A few layers that are trained; `rows(i)`: of the batch of a call, which is drawn in it."""

    def __init__(self, rows=lambda i: ROWS, inside=lambda i: None):
        torch.manual_seed(20261128)
        parts = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(4)]
        self.parts, self.rows, self.inside = nn.ModuleList(parts), rows, inside
        self.opt = torch.optim.SGD(self.parts.parameters(), 0.1, momentum=0.9)
        self.draw, self.modes = torch.Generator().manual_seed(5), []

    def step(self, i):
        self.modes.append(_len_torch_dispatch_stack())
        x = y = torch.randn(self.rows(i), WIDTH, generator=self.draw)
        for part in self.parts:
            y = part(y)
            self.inside(i)
        self.modes.append(_len_torch_dispatch_stack())
        loss = (y - x).square().mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.detach()

    def state(self):
        return [*self.parts.state_dict().values()]


def metered(call, program, on_host, calls):
    """Losses of calls, and the most bytes on the device by call."""
    losses, peaks = [], []
    for i in calls:
        with Meter(program.state(), on_host) as meter:
            losses.append(call(i).item())
        peaks.append(meter.peak)
    return losses, peaks
