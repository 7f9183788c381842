"""Cumulative sums, and stencils over images."""

from __future__ import annotations

import torch

from vkernels.library import scans, stencils

from .registering import Operation, define, define_differentiable, like_first

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

_stencil = define_differentiable(
    "stencil(Tensor x, Tensor weight) -> Tensor", stencils.stencil, like_first, stencils.stencil_backward, "x weight"
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
