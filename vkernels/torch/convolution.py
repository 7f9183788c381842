"""Convolution of images."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch

from vkernels.library import activations, convolution
from vkernels.library.convolution import Pair

from .registering import define_differentiable, like, like_first

__all__ = ["conv2d"]

_SETTINGS = "int[2] stride, int[2] padding, int[2] dilation, int groups, str activation"


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


@wraps(convolution.conv2d_backward)
def _run_backward(
    grad: torch.Tensor, image: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, *settings: Any
) -> tuple[torch.Tensor, ...]:
    *steps, groups, activation = settings
    stride, padding, dilation = map(tuple, steps)
    if activation != "none":
        before = convolution.conv2d(image, weight, bias, stride, padding, dilation, groups)
        grad = activations.activate_backward(grad, before, activation, out=before)
    return convolution.conv2d_backward(grad, image, weight, stride, padding, dilation, groups)


_conv2d = define_differentiable(
    f"conv2d(Tensor image, Tensor weight, Tensor? bias, {_SETTINGS}) -> Tensor",
    _run,
    _fake,
    _run_backward,
    "image weight bias",
    fake_gradient=lambda grad, image, weight, *_: (like_first(image), like_first(weight), like(grad, grad.shape[1:2])),
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

    With an activation, the gradient recomputes the convolution, so nothing of it is kept.
    """
    pairs = ([each, each] if isinstance(each, int) else list(each) for each in (stride, padding, dilation))
    return _conv2d(image, weight, bias, *pairs, groups, activation)
