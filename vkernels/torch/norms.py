"""Softmax, its logarithm, and layer, RMS and group normalisation."""

from __future__ import annotations

from collections.abc import Callable

import torch

from vkernels.library import losses, norms, rows

from .registering import define_differentiable, like, like_first

__all__ = ["group_norm", "l2_normalize", "layer_norm", "log_softmax", "rms_norm", "softmax"]


_softmax = define_differentiable(
    "softmax(Tensor x) -> Tensor", rows.softmax, like_first, rows.softmax_backward, "x", result_for="x"
)
_log_softmax = define_differentiable(
    "log_softmax(Tensor x) -> Tensor", losses.log_softmax, like_first, losses.log_softmax_backward, "x", result_for="x"
)


def softmax(x: torch.Tensor) -> torch.Tensor:
    """exp(x) / sum(exp(x)) along the last dimension: `vkernels.library.softmax`, with its gradient."""
    return _softmax(x)


def log_softmax(x: torch.Tensor) -> torch.Tensor:
    """x - log(sum(exp(x))) along the last dimension: `vkernels.library.log_softmax`, with its gradient."""
    return _log_softmax(x)


def _fake_gradients(parameters: int, dimension: int = -1) -> Callable[..., tuple[torch.Tensor, ...]]:
    """Fake gradients of x and of parameters, each with one element per position of x's dimension."""
    return lambda grad, x, *_: (like_first(x), *(like(x, (x.shape[dimension],)) for _ in range(parameters)))


_layer_norm = define_differentiable(
    "layer_norm(Tensor x, Tensor? weight, Tensor? bias, float eps) -> Tensor",
    rows.layer_norm,
    like_first,
    norms.layer_norm_backward,
    "x weight bias",
    without="bias",
    fake_gradient=_fake_gradients(2),
)
_rms_norm = define_differentiable(
    "rms_norm(Tensor x, Tensor? weight, float eps) -> Tensor",
    norms.rms_norm,
    like_first,
    norms.rms_norm_backward,
    "x weight",
    fake_gradient=_fake_gradients(1),
)
_group_norm = define_differentiable(
    "group_norm(Tensor x, int groups, Tensor? weight, Tensor? bias, float eps) -> Tensor",
    norms.group_norm,
    like_first,
    norms.group_norm_backward,
    "x weight bias",
    without="bias",
    fake_gradient=_fake_gradients(2, dimension=1),
)
_l2_normalize = define_differentiable(
    "l2_normalize(Tensor x, float eps) -> Tensor", norms.l2_normalize, like_first, norms.l2_normalize_backward, "x"
)


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
