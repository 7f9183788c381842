"""Three small torch models, each with kernels of its own sizes, which `farm_real` submits to a farm."""

from __future__ import annotations

import torch
from torch import nn

NAMES = ("classifier", "transformer", "image_filter")
Made = tuple[nn.Module, tuple[torch.Tensor]]


def classifier() -> Made:
    """Two layers and the logarithms of probabilities."""
    return _made(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 1000), nn.LogSoftmax(-1)), (torch.randn(128, 256),)


def transformer() -> Made:
    """Four of a transformer's wide layers with their norms, and probabilities."""
    wide = [nn.LayerNorm(256), nn.Linear(256, 768), nn.GELU(), nn.Linear(768, 256)]
    return _made(*(4 * wide), nn.Softmax(-1)), (torch.randn(128, 256),)


def image_filter() -> Made:
    """Two convolutions of one channel, and probabilities of each row."""
    layers = [nn.Conv2d(1, 1, 3, padding=1), nn.ReLU(), nn.Conv2d(1, 1, 5, padding=2), nn.Softmax(-1)]
    return _made(*layers), (torch.randn(1, 1, 256, 256),)


def _made(*layers: nn.Module) -> nn.Module:
    """For inference: no kernel of a backward pass is called."""
    return nn.Sequential(*layers).eval().requires_grad_(False)
