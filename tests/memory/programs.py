"""Small training programs, made the same each time: a transformer and a CNN."""

from __future__ import annotations

import torch
from torch import nn

SEED = 20261121


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self, width: int):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.before(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.between(x))


def transformer():
    """Three layers; the loss of a token's class."""
    model = nn.Sequential(nn.Embedding(20, 32), *[Block(32) for _ in range(3)], nn.Linear(32, 20))
    x, y = torch.randint(20, (4, 24)), torch.randint(20, (4 * 24,))
    return model, x, y, lambda out: out.flatten(0, 1)


def cnn():
    """Four convolutions with batch normalisation, pooling and dropout."""

    def layer(before, after):
        return [nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU()]

    model = nn.Sequential(
        *layer(3, 8), *layer(8, 8), nn.MaxPool2d(2), *layer(8, 16), *layer(16, 16), nn.MaxPool2d(2),
        nn.Flatten(), nn.Dropout(0.1), nn.Linear(16 * 64, 10),
    )  # fmt: skip
    return model, torch.randn(8, 3, 32, 32), torch.randint(10, (8,)), lambda out: out


class Program:
    """A model in training, the same for each `make`. `step` is an iteration, and gives the loss."""

    def __init__(self, make):
        torch.manual_seed(SEED)
        self.model, self.x, self.y, self.shape = make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.05, momentum=0.9)
        self.iteration = 0

    def step(self, x=None, y=None):
        torch.manual_seed(self.iteration)  # of dropout
        self.iteration += 1
        self.optimizer.zero_grad()
        out = self.shape(self.model(self.x if x is None else x))
        loss = nn.functional.cross_entropy(out, self.y if y is None else y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def state(self):
        """All that it has learnt, by name."""
        state = dict(self.model.state_dict())
        for n, each in enumerate(self.optimizer.state.values()):
            state[f"momentum {n}"] = each["momentum_buffer"]
        return state


def assert_same(one, other):
    """Two programs have the same bits."""
    a, b = one.state(), other.state()
    assert a.keys() == b.keys()
    for name, value in a.items():
        assert torch.equal(value, b[name]), name
