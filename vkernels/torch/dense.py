"""Matrix products, one or many, with bias and activation in the same pass, and two layers in one launch."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch

from vkernels.library import dense
from vkernels.library.dense import mlp as two_layers

from .registering import Context, Operation, define, define_differentiable, like, like_each, or_empty

__all__ = ["batched_matmul", "matmul", "mlp"]

_FACTORS = "Tensor a, Tensor b, Tensor? bias, str? activation, str? precision"


def _keep(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    a, b, bias, ctx.activation, ctx.precision, _ = inputs
    ctx.save_for_backward(a, b, bias)


_matmul_backward = define(
    f"matmul_backward(Tensor grad, {_FACTORS}) -> (Tensor, Tensor, Tensor)",
    lambda grad, *factors: or_empty(grad, dense.matmul_backward(grad, *factors)),
    lambda grad, a, b, bias, *_: like_each(grad, a, b, bias),
)


def _fake_product(a: torch.Tensor, shape: tuple[int, ...], dtype: str | None) -> torch.Tensor:
    usual = torch.float32 if a.dtype.itemsize == 1 else a.dtype
    return like(a, shape, usual if dtype is None else getattr(torch, dtype))


def _matmul_gradients(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    """The required gradients; without an activation each is one product."""
    a, b, bias = ctx.saved_tensors
    for_a, for_b, for_bias, *_ = ctx.needs_input_grad
    grad = grad.to(a.dtype)
    if ctx.activation not in (None, "none"):
        of_a, of_b, of_bias = _matmul_backward(grad, a, b, bias, ctx.activation, ctx.precision)
        return of_a, of_b, None if bias is None else of_bias, None, None, None
    of_a = _matmul(grad, b.t(), None, None, ctx.precision, None) if for_a else None
    of_b = _matmul(a.t(), grad, None, None, ctx.precision, None) if for_b else None
    return of_a, of_b, grad.sum(0) if for_bias else None, None, None, None


_matmul: Operation = define(
    f"matmul({_FACTORS}, str? dtype) -> Tensor",
    lambda a, b, bias, activation, precision, dtype: dense.matmul(a, b, bias, activation, precision, None, dtype),
    lambda a, b, *others: _fake_product(a, (a.shape[0], b.shape[1]), others[-1]),
    _keep,
    _matmul_gradients,
)


@wraps(dense.batched_matmul_backward)
def _batched_matmul_backward(grad: torch.Tensor, a: torch.Tensor, *others: Any) -> Any:
    return dense.batched_matmul_backward(grad.to(a.dtype), a, *others)


_batched_matmul = define_differentiable(
    f"batched_matmul({_FACTORS}, str? dtype) -> Tensor",
    lambda a, b, bias, activation, precision, dtype: dense.batched_matmul(
        a, b, bias, activation, precision, None, dtype
    ),
    lambda a, b, *others: _fake_product(a, (a.shape[0], a.shape[1], b.shape[-1]), others[-1]),
    _batched_matmul_backward,
    "a b bias",
    without="dtype",
)
_mlp = define_differentiable(
    "mlp(Tensor x, Tensor w1, Tensor? b1, Tensor w2, Tensor? b2, str activation) -> Tensor",
    two_layers,
    lambda x, w1, b1, w2, *_: like(x, (x.shape[0], w2.shape[1])),
    dense.mlp_backward,
    "x w1 b1 w2 b2",
)


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    precision: str | None = None,
    dtype: str | None = None,
) -> torch.Tensor:
    """activation(a @ b + bias) of two matrices: `vkernels.library.matmul`. Gradients: of a, b and bias.

    With an activation, the gradient recomputes the product, so nothing of it is kept.
    """
    return _matmul(a, b, bias, activation, precision, dtype)


def batched_matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    precision: str | None = None,
    dtype: str | None = None,
) -> torch.Tensor:
    """activation(a[n] @ b[n] + bias) for each n: `vkernels.library.batched_matmul`. Gradients: of a, b and bias."""
    return _batched_matmul(a, b, bias, activation, precision, dtype)


def mlp(
    x: torch.Tensor,
    w1: torch.Tensor,
    b1: torch.Tensor | None,
    w2: torch.Tensor,
    b2: torch.Tensor | None = None,
    activation: str = "relu",
) -> torch.Tensor:
    """activation(x @ w1 + b1) @ w2 + b2 in one launch: `vkernels.library.mlp`. Gradients: of x, weights and biases."""
    return _mlp(x, w1, b1, w2, b2, activation)
