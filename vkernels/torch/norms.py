"""Layer, RMS and group normalisation."""

from __future__ import annotations

from typing import Any

import torch

from vkernels.library import norms, rows

from .registering import Context, define, define_like_input, like, like_first

__all__ = ["group_norm", "l2_normalize", "layer_norm", "rms_norm"]

Tensors = tuple[torch.Tensor, ...]


def _with_parameters(x: torch.Tensor, width: int, parameters: int) -> Tensors:
    """Fake gradients of x, and of weight, or weight and bias."""
    return (like(x, x.shape), *(like(x, (width,)) for _ in range(parameters)))


def _keep_x_and_weight(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    """Of `(x, weight, bias, eps)`."""
    x, weight, bias, ctx.eps = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight)


_layer_norm_backward = define(
    "layer_norm_backward(Tensor grad, Tensor x, Tensor? weight, float eps) -> (Tensor, Tensor, Tensor)",
    norms.layer_norm_backward,
    lambda grad, x, weight, eps: _with_parameters(x, x.shape[-1], 2),
)


def _layer_norm_gradients(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    of_x, of_weight, of_bias = _layer_norm_backward(grad, x, weight, ctx.eps)
    return of_x, None if weight is None else of_weight, of_bias if ctx.has_bias else None, None


_layer_norm = define(
    "layer_norm(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor",
    rows.layer_norm,
    like_first,
    _keep_x_and_weight,
    _layer_norm_gradients,
)

_rms_norm_backward = define(
    "rms_norm_backward(Tensor grad, Tensor x, Tensor? weight, float eps) -> (Tensor, Tensor)",
    norms.rms_norm_backward,
    lambda grad, x, weight, eps: _with_parameters(x, x.shape[-1], 1),
)


def _keep_for_rms_norm(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, weight, ctx.eps = inputs
    ctx.save_for_backward(x, weight)


def _rms_norm_gradients(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    of_x, of_weight = _rms_norm_backward(grad, x, weight, ctx.eps)
    return of_x, None if weight is None else of_weight, None


_rms_norm = define(
    "rms_norm(Tensor x, Tensor? weight, float eps) -> Tensor",
    norms.rms_norm,
    like_first,
    _keep_for_rms_norm,
    _rms_norm_gradients,
)

_group_norm_backward = define(
    "group_norm_backward(Tensor grad, Tensor x, int groups, Tensor? weight, float eps) -> (Tensor, Tensor, Tensor)",
    norms.group_norm_backward,
    lambda grad, x, groups, weight, eps: _with_parameters(x, x.shape[1], 2),
)


def _keep_for_group_norm(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, ctx.groups, weight, bias, ctx.eps = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(x, weight)


def _group_norm_gradients(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    of_x, of_weight, of_bias = _group_norm_backward(grad, x, ctx.groups, weight, ctx.eps)
    return of_x, None, None if weight is None else of_weight, of_bias if ctx.has_bias else None, None


_group_norm = define(
    "group_norm(Tensor x, int groups, Tensor? weight, Tensor? bias, float eps) -> Tensor",
    norms.group_norm,
    like_first,
    _keep_for_group_norm,
    _group_norm_gradients,
)


_l2_normalize = define_like_input(norms.l2_normalize, norms.l2_normalize_backward, "float eps")


def l2_normalize(x: torch.Tensor, eps: float = 1e-12) -> torch.Tensor:
    """x / max(sqrt(sum(x²)), eps) along the last dimension: `vkernels.library.l2_normalize`, with its gradient."""
    return _l2_normalize(x, eps)


def layer_norm(
    x: torch.Tensor, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None, eps: float = 1e-5
) -> torch.Tensor:
    """(x - mean) / sqrt(variance + eps) * weight + bias along the last dimension: `vkernels.library.layer_norm`.

    Gradients: of x, weight and bias.
    """
    return _layer_norm(x, weight, bias, eps)


def rms_norm(x: torch.Tensor, weight: torch.Tensor | None = None, eps: float = 1e-5) -> torch.Tensor:
    """x / sqrt(mean(x²) + eps) * weight along the last dimension: `vkernels.library.rms_norm`.

    Gradients: of x and weight.
    """
    return _rms_norm(x, weight, eps)


def group_norm(
    x: torch.Tensor,
    groups: int,
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Normalisation over groups of channels, the second dimension: `vkernels.library.group_norm`.

    Gradients: of x, weight and bias.
    """
    return _group_norm(x, groups, weight, bias, eps)
