"""What operators do inside each of many hexahedral elements: the CEED bake-off kernels."""

from __future__ import annotations

from typing import Any

import torch

from vkernels.library import finite_elements

from .registering import Context, Operation, define, like_first, refuse_gradients

__all__ = ["apply_mass", "apply_stiffness", "apply_stiffness_at_nodes"]


def _keep_mass(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    refuse_gradients(ctx, "apply_mass", values=1, weight=2)
    ctx.save_for_backward(*inputs[1:])


def _keep_stiffness(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    refuse_gradients(ctx, "apply_stiffness", values=1, slopes=2, metric=3)
    ctx.save_for_backward(*inputs[1:])


def _keep_stiffness_at_nodes(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    refuse_gradients(ctx, "apply_stiffness_at_nodes", slopes=1, metric=2)
    ctx.save_for_backward(*inputs[1:])


# The operators are symmetric, so that each is its own gradient.
_apply_mass: Operation = define(
    "apply_mass(Tensor x, Tensor values, Tensor weight) -> Tensor",
    finite_elements.apply_mass,
    like_first,
    _keep_mass,
    lambda ctx, grad: (_apply_mass(grad, *ctx.saved_tensors), None, None),
)
_apply_stiffness: Operation = define(
    "apply_stiffness(Tensor x, Tensor values, Tensor slopes, Tensor metric) -> Tensor",
    finite_elements.apply_stiffness,
    like_first,
    _keep_stiffness,
    lambda ctx, grad: (_apply_stiffness(grad, *ctx.saved_tensors), None, None, None),
)
_apply_stiffness_at_nodes: Operation = define(
    "apply_stiffness_at_nodes(Tensor x, Tensor slopes, Tensor metric) -> Tensor",
    finite_elements.apply_stiffness_at_nodes,
    like_first,
    _keep_stiffness_at_nodes,
    lambda ctx, grad: (_apply_stiffness_at_nodes(grad, *ctx.saved_tensors), None, None),
)


def apply_mass(x: torch.Tensor, values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The mass operator, BK1 and BK2: `vkernels.library.apply_mass`. Gradient: of x, of any order."""
    return _apply_mass(x, values, weight)


def apply_stiffness(x: torch.Tensor, values: torch.Tensor, slopes: torch.Tensor, metric: torch.Tensor) -> torch.Tensor:
    """The stiffness operator, BK3 and BK4: `vkernels.library.apply_stiffness`. Gradient: of x, of any order."""
    return _apply_stiffness(x, values, slopes, metric)


def apply_stiffness_at_nodes(x: torch.Tensor, slopes: torch.Tensor, metric: torch.Tensor) -> torch.Tensor:
    """The stiffness operator with the nodes as points, BK5 and BK6: `vkernels.library.apply_stiffness_at_nodes`.

    Gradient: of x, of any order.
    """
    return _apply_stiffness_at_nodes(x, slopes, metric)
