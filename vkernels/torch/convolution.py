"""Convolution of images."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from vkernels.library import activations, convolution
from vkernels.library.convolution import Pair

from .registering import Context, define, like

__all__ = ["conv2d"]

_SETTINGS = "int[2] stride, int[2] padding, int[2] dilation, int groups, str activation"

Settings = tuple[Sequence[int], Sequence[int], Sequence[int], int, str]
"""Stride, padding, dilation, groups and activation."""


def _run(image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *settings: Any) -> torch.Tensor:
    stride, padding, dilation, groups, activation = settings
    return convolution.conv2d(image, weight, bias, tuple(stride), tuple(padding), tuple(dilation), groups, activation)


def _fake(image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *settings: Any) -> torch.Tensor:
    stride, padding, dilation, *_ = settings
    sides = [
        (image.shape[2 + at] + 2 * padding[at] - dilation[at] * (weight.shape[2 + at] - 1) - 1) // stride[at] + 1
        for at in range(2)
    ]
    return like(image, (image.shape[0], weight.shape[0], *sides))


def _run_backward(
    grad: torch.Tensor, image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *settings: Any
) -> tuple[torch.Tensor, ...]:
    *steps, groups, activation = settings
    stride, padding, dilation = map(tuple, steps)
    if activation != "none":
        before = convolution.conv2d(image, weight, bias, stride, padding, dilation, groups)
        grad = activations.activate_backward(grad, before, activation, out=before)
    return convolution.conv2d_backward(grad, image, weight, stride, padding, dilation, groups)


_conv2d_backward = define(
    f"conv2d_backward(Tensor grad, Tensor image, Tensor weight, Tensor? bias, {_SETTINGS}) -> (Tensor, Tensor, Tensor)",
    _run_backward,
    lambda grad, image, weight, *_: (like(image, image.shape), like(weight, weight.shape), like(grad, grad.shape[1:2])),
)


def _keep(ctx: Context, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    image, weight, bias, *ctx.settings = inputs
    ctx.has_bias = bias is not None
    ctx.save_for_backward(image, weight, None if ctx.settings[-1] == "none" else bias)


def _gradients(ctx: Context, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
    of_image, of_weight, of_bias = _conv2d_backward(grad, *ctx.saved_tensors, *ctx.settings)
    return of_image, of_weight, of_bias if ctx.has_bias else None, None, None, None, None, None


_conv2d = define(
    f"conv2d(Tensor image, Tensor weight, Tensor? bias, {_SETTINGS}) -> Tensor", _run, _fake, _keep, _gradients
)


def conv2d(
    image: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
    activation: str = "none",
) -> torch.Tensor:
    """activation(weight ∗ image + bias): `vkernels.library.conv2d`. Gradients: of image, weight and bias.

    With an activation the convolution is computed again for the gradient, so that nothing of it need be kept.
    """
    pairs = (_pair(each) for each in (stride, padding, dilation))
    return _conv2d(image, weight, bias, *pairs, groups, activation)


def _pair(numbers: Pair) -> list[int]:
    return [numbers, numbers] if isinstance(numbers, int) else list(numbers)
