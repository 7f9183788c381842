"""Whole models of which `tuning_holds.py` asks whether tuning pays: a block of a transformer, of a CNN, a GNN's layer.

vk tune --model benchmarks/holding_models.py:gnn_layer --slice cores=1 --budget 60s
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch
from torch import nn

import vkernels.torch as vt

sys.path.insert(0, str(Path(__file__).parent))

from model_of_tasks import WIDTH, WORDS, Block

CHANNELS, PICTURE = 64, 28
NODES, EDGES, FEATURES = 4096, 65536, 64
MODELS = ("transformer_block", "cnn_block", "gnn_layer")

Inputs = tuple[torch.Tensor, ...]


class ResidualBlock(nn.Module):
    """Two convolutions with group norms, and the input added: B × CHANNELS × PICTURE × PICTURE to the same."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.GroupNorm(8, CHANNELS), nn.ReLU(),
            nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1), nn.GroupNorm(8, CHANNELS),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.relu(x + self.inner(x))
        return y


class GraphLayer(nn.Module):
    """A graph convolution: weighted sums of neighbours, a linear layer, an activation and a norm of each node."""

    def __init__(self) -> None:
        super().__init__()
        random = torch.Generator().manual_seed(2)
        start = torch.sort(torch.randint(0, EDGES + 1, (NODES - 1,), generator=random)).values
        ends = torch.tensor([0]), torch.tensor([EDGES])
        self.register_buffer("start", torch.cat([ends[0], start, ends[1]]))
        self.register_buffer("column", torch.randint(0, NODES, (EDGES,), generator=random))
        self.register_buffer("weight", torch.rand(EDGES, generator=random) * NODES / EDGES)
        self.linear = nn.Linear(FEATURES, FEATURES)
        self.norm = nn.LayerNorm(FEATURES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        around = vt.csr_matmul(self.start, self.column, self.weight, x)
        y: torch.Tensor = self.norm(x + torch.relu(self.linear(around)))
        return y


def transformer_block() -> tuple[nn.Module, Inputs]:
    """A block of attention and an MLP, and its input."""
    return _made(Block), (_numbers(4, WORDS, WIDTH),)


def cnn_block() -> tuple[nn.Module, Inputs]:
    """A residual block, and its input."""
    return _made(ResidualBlock), (_numbers(4, CHANNELS, PICTURE, PICTURE),)


def gnn_layer() -> tuple[nn.Module, Inputs]:
    """A layer of a graph convolution, and the features of its nodes."""
    return _made(GraphLayer), (_numbers(NODES, FEATURES),)


def _made(kind: type[nn.Module]) -> nn.Module:
    torch.manual_seed(1)
    return kind().eval()


def _numbers(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3))
