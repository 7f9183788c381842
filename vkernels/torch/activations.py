"""Activations of each element."""

from __future__ import annotations

import torch

from vkernels.library import activations

from .registering import define_like_input

__all__ = ["activate"]

_activate = define_like_input(activations.activate, activations.activate_backward, "str activation")


def activate(x: torch.Tensor, activation: str) -> torch.Tensor:
    """none, relu, gelu, gelu_tanh, silu, sigmoid or tanh of each element: `vkernels.library.activate`, with its
    gradient."""
    return _activate(x, activation)
