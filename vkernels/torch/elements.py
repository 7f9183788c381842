"""Activations, dropout, rotary embedding, and the AdamW step."""

from __future__ import annotations

from typing import Any

import torch

from vkernels.library import activations, elements

from .registering import Context, Operation, define, define_differentiable, like_first, refuse_gradients

__all__ = ["activate", "adamw", "dropout", "rotary_embedding"]

_activate = define_differentiable(
    "activate(Tensor x, str activation) -> Tensor",
    activations.activate,
    like_first,
    activations.activate_backward,
    "x",
)


def activate(x: torch.Tensor, activation: str) -> torch.Tensor:
    """none, relu, gelu, gelu_tanh, silu, sigmoid or tanh of each element: `vkernels.library.activate`, with its
    gradient."""
    return _activate(x, activation)


def _keep_dropout(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, ctx.probability, ctx.seed = inputs


_dropout: Operation = define(
    "dropout(Tensor x, float probability, int seed) -> Tensor",
    elements.dropout,
    like_first,
    _keep_dropout,
    lambda ctx, grad: (_dropout(grad, ctx.probability, ctx.seed), None, None),
)


def _keep_rotation(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    _, cosine, sine, ctx.interleaved, ctx.backward_ = inputs
    refuse_gradients(ctx, "rotary_embedding", cosine=1, sine=2)
    ctx.save_for_backward(cosine, sine)


def _rotate_back(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    of_x = _rotary_embedding(grad, *ctx.saved_tensors, ctx.interleaved, not ctx.backward_)
    return of_x, None, None, None, None


_rotary_embedding: Operation = define(
    "rotary_embedding(Tensor x, Tensor cosine, Tensor sine, bool interleaved, bool backward) -> Tensor",
    elements.rotary_embedding,
    like_first,
    _keep_rotation,
    _rotate_back,
)


_adamw = define(
    "adamw(Tensor(a!) parameter, Tensor grad, Tensor(b!) mean, Tensor(c!) square, int step, float rate, float beta1, "
    "float beta2, float eps, float decay) -> ()",
    lambda parameter, grad, mean, square, step, rate, beta1, beta2, eps, decay: elements.adamw(
        parameter, grad, mean, square, step, rate, (beta1, beta2), eps, decay
    ),
    lambda *arguments: None,
)


def dropout(x: torch.Tensor, probability: float, seed: int) -> torch.Tensor:
    """Each element set to 0 with a probability, others scaled up: `vkernels.library.dropout`.

    Gradient: of x, of any order; no mask is kept.
    """
    return _dropout(x, probability, seed)


def rotary_embedding(
    x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor, interleaved: bool = False, backward: bool = False
) -> torch.Tensor:
    """Pairs of each head's elements, turned: `vkernels.library.rotary_embedding`. Gradient: of x, of any order."""
    return _rotary_embedding(x, cosine, sine, interleaved, backward)


def adamw(
    parameter: torch.Tensor,
    grad: torch.Tensor,
    mean: torch.Tensor,
    square: torch.Tensor,
    step: int,
    rate: float = 1e-3,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    decay: float = 1e-2,
) -> None:
    """One step of AdamW in one pass, in place: `vkernels.library.adamw`. Call it within `torch.no_grad()`."""
    _adamw(parameter, grad, mean, square, step, rate, *betas, eps, decay)
