"""Cumulative sums, and stencils over images."""

from __future__ import annotations

from typing import Any

import torch

from vkernels.library import scans, stencils

from .registering import Context, Operation, define, like, like_first

__all__ = ["cumulative_sum", "stencil"]

# Each of the two is the other's gradient.
_cumulative_sum: Operation = define(
    "cumulative_sum(Tensor x) -> Tensor",
    scans.cumulative_sum,
    like_first,
    backward=lambda ctx, grad: _cumulative_sum_backward(grad),
)
_cumulative_sum_backward: Operation = define(
    "cumulative_sum_backward(Tensor grad) -> Tensor",
    scans.cumulative_sum_backward,
    like_first,
    backward=lambda ctx, grad: _cumulative_sum(grad),
)

_stencil_backward = define(
    "stencil_backward(Tensor grad, Tensor x, Tensor weight) -> (Tensor, Tensor)",
    stencils.stencil_backward,
    lambda grad, x, weight: (like(x, x.shape), like(weight, weight.shape)),
)


def _keep(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(*inputs)


_stencil = define(
    "stencil(Tensor x, Tensor weight) -> Tensor",
    stencils.stencil,
    like_first,
    _keep,
    lambda ctx, grad: _stencil_backward(grad, *ctx.saved_tensors),
)


def cumulative_sum(x: torch.Tensor) -> torch.Tensor:
    """The sum of each element and all before it along the last dimension: `vkernels.library.cumulative_sum`.

    Gradient: of x, of any order.
    """
    return _cumulative_sum(x)


def stencil(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """3 × 3 weights, or 5 for a cross, over the last two dimensions: `vkernels.library.stencil`.

    Gradients: of x and weight.
    """
    return _stencil(x, weight)
