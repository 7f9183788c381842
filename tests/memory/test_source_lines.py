"""Recorded steps have the program's lines, also in the backward pass, and its names for tensors."""

from __future__ import annotations

import inspect

import torch
from torch import nn

from vkernels.memory.record import record


class Block(nn.Module):
    """Two lines of a forward pass."""

    def __init__(self):
        super().__init__()
        self.wide, self.narrow = nn.Linear(8, 16), nn.Linear(16, 8)
        self.register_buffer("scale", torch.ones(8))

    def forward(self, x):
        hidden = nn.functional.gelu(self.wide(x))
        return self.narrow(hidden) * self.scale


def line_of(text):
    lines, first = inspect.getsourcelines(Block.forward)
    return next(first + n for n, line in enumerate(lines) if text in line)


def test_backward_operations_have_the_lines_of_their_forward_operations():
    model, x = Block(), torch.randn(4, 8)

    def step():
        model.zero_grad()
        model(x).sum().backward()

    trace = record(step)
    sources = {op.name: op.source for op in trace.operations}
    forward = f"test_source_lines.py:{line_of('gelu')} in forward"
    assert sources["gelu"] == sources["gelu_backward"] == forward
    products = [op.source for op in trace.operations if op.name == "mm"]
    assert f"test_source_lines.py:{line_of('narrow')} in forward" in products
    assert forward in products
    assert all(each.source.startswith("test_source_lines.py:") for each in trace.operations)


class Trainer:
    """Holds what it trains."""

    def __init__(self):
        self.model, self.data = Block(), [torch.randn(4, 8)]
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)

    def step(self):
        self.optimizer.zero_grad()
        self.model(self.data[0]).sum().backward()
        self.optimizer.step()


def test_tensors_have_the_names_of_parameters_states_and_gradients():
    found = {each.name: each for each in record(Trainer().step).tensors}
    assert found["model.wide.weight"].is_global
    assert found["momentum_buffer of model.narrow.bias"].is_global
    assert found["model.scale"].size == found["data.0"].size // 4 == 32
    assert not found["gradient of model.wide.weight"].is_global
    assert not [name for name in found if name.startswith("global")]


def test_a_step_without_names_is_recorded():
    assert [each.name for each in record(lambda: torch.ones(4) + 1).tensors] == ["ones 0", "add 1"]
