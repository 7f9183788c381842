"""The element operators of the CEED bake-off kernels, for many hexahedral elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from vkernels.library import finite_elements

from .registering import Context, Operation, define, like_first, refuse_gradients

__all__ = ["apply_mass", "apply_stiffness", "apply_stiffness_at_nodes"]


def _define(schema: str, run: Callable[..., torch.Tensor], constants: Sequence[str]) -> Operation:
    """Register an operator, which is symmetric and so its own gradient; `constants`: arguments without gradients."""

    def keep(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        refuse_gradients(ctx, run.__name__, **{name: place for place, name in enumerate(constants, 1)})
        ctx.save_for_backward(*inputs[1:])

    def backward(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return operation(grad, *ctx.saved_tensors), *(None for _ in constants)

    operation = define(schema, run, like_first, keep, backward)
    return operation


_apply_mass = _define(
    "apply_mass(Tensor x, Tensor values, Tensor weight) -> Tensor", finite_elements.apply_mass, ("values", "weight")
)
_apply_stiffness = _define(
    "apply_stiffness(Tensor x, Tensor values, Tensor slopes, Tensor metric) -> Tensor",
    finite_elements.apply_stiffness,
    ("values", "slopes", "metric"),
)
_apply_stiffness_at_nodes = _define(
    "apply_stiffness_at_nodes(Tensor x, Tensor slopes, Tensor metric) -> Tensor",
    finite_elements.apply_stiffness_at_nodes,
    ("slopes", "metric"),
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
