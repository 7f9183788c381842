"""The cross entropy of classes."""

from __future__ import annotations

from typing import Any

import torch

from vkernels.library import losses

from .registering import Context, computed_dtype, define, like, with_checks_refused

__all__ = ["cross_entropy"]

_cross_entropy_backward = define(
    "cross_entropy_backward(Tensor grad, Tensor x, Tensor target, Tensor normaliser, Tensor count, int ignored, "
    "float smoothing, str reduction) -> Tensor",
    losses.cross_entropy_backward,
    lambda grad, x, *others: like(x, x.shape),
)


def _fake_parts(
    x: torch.Tensor, target: torch.Tensor, ignored: int, smoothing: float, reduction: str, checked: bool
) -> tuple[torch.Tensor, ...]:
    loss = like(x, x.shape[:1] if reduction == "none" else ())
    return loss, like(x, x.shape[:1], computed_dtype(x)), like(x, (1,), computed_dtype(x))


def _keep(ctx: Context, inputs: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> None:
    x, target, *ctx.numbers, _ = inputs
    _, normaliser, count = output
    ctx.mark_non_differentiable(normaliser, count)
    ctx.save_for_backward(x, target, normaliser, count)


_cross_entropy = define(
    "cross_entropy(Tensor x, Tensor target, int ignored, float smoothing, str reduction, bool checked) "
    "-> (Tensor, Tensor, Tensor)",
    with_checks_refused(losses.cross_entropy_parts, "cross_entropy"),
    _fake_parts,
    _keep,
    lambda ctx, grad, *_: (_cross_entropy_backward(grad, *ctx.saved_tensors, *ctx.numbers), *(None,) * 5),
)


def cross_entropy(
    x: torch.Tensor,
    target: torch.Tensor,
    ignored: int = losses.IGNORED,
    smoothing: float = 0.0,
    reduction: str = "mean",
    checked: bool = True,
) -> torch.Tensor:
    """-log softmax(x)[target] of rows of scores: `vkernels.library.cross_entropy`, with the gradient of x.

    Beyond the arguments, nothing of x's size is kept for the gradient.
    """
    loss: torch.Tensor = _cross_entropy(x, target, ignored, smoothing, reduction, checked)[0]
    return loss
