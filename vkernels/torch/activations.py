"""Activations of each element."""

from __future__ import annotations

from typing import Any

import torch

from vkernels.library import activations

from .registering import Context, define, like_first

_activate_backward = define(
    "activate_backward(Tensor grad, Tensor x, str activation) -> Tensor", activations.activate_backward, like_first
)


def _keep(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, ctx.activation = inputs
    ctx.save_for_backward(x)


_activate = define(
    "activate(Tensor x, str activation) -> Tensor",
    activations.activate,
    like_first,
    _keep,
    lambda ctx, grad: (_activate_backward(grad, *ctx.saved_tensors, ctx.activation), None),
)


def activate(x: torch.Tensor, activation: str) -> torch.Tensor:
    """none, relu, gelu, gelu_tanh, silu, sigmoid or tanh of each element: `vkernels.library.activate`, with its
    gradient."""
    return _activate(x, activation)
