"""Group normalisation and the gradient of its input, written as their formulas."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import group_norm as built_in

import vkernels as vk

from .case import ODD, TINY, USUAL, WrittenCase, WrittenCases

EPSILON = 1e-5


@vk.kernel
def group_norm(
    x: Float[vk.Tensor, "B G C S"],
    weight: Float[vk.Tensor, "G C"],
    bias: Float[vk.Tensor, "G C"],
    out: Float[vk.Tensor, "B G C S"],
    epsilon: vk.Scalar,
):
    b = vk.tile("B")
    g = vk.tile("G")
    c = vk.whole("C")
    s = vk.whole("S")
    group = x[b, g, c, s]
    centred = group - vk.mean(group, axis=(c, s))
    variance = vk.mean(centred * centred, axis=(c, s))
    out[b, g, c, s] = centred * vk.rsqrt(variance + epsilon) * weight[g, c] + bias[g, c]


@vk.kernel
def group_norm_gradient(
    grad: Float[vk.Tensor, "B G C S"],
    x: Float[vk.Tensor, "B G C S"],
    weight: Float[vk.Tensor, "G C"],
    out: Float[vk.Tensor, "B G C S"],
    epsilon: vk.Scalar,
):
    b = vk.tile("B")
    g = vk.tile("G")
    c = vk.whole("C")
    s = vk.whole("S")
    group = x[b, g, c, s]
    centred = group - vk.mean(group, axis=(c, s))
    inverse = vk.rsqrt(vk.mean(centred * centred, axis=(c, s)) + epsilon)
    normal = centred * inverse
    change = grad[b, g, c, s] * weight[g, c]
    along = vk.mean(change * normal, axis=(c, s))
    out[b, g, c, s] = inverse * (change - vk.mean(change, axis=(c, s)) - normal * along)


def _forward(x: Tensor, weight: Tensor, bias: Tensor, epsilon: float) -> Tensor:
    flat = x.flatten(1, 2)
    return built_in(flat, x.shape[1], weight.flatten(), bias.flatten(), epsilon).view(x.shape)


def _gradient(grad: Tensor, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    axes = (2, 3)
    centred = x - x.mean(axes, keepdim=True)
    inverse = torch.rsqrt((centred * centred).mean(axes, keepdim=True) + epsilon)
    normal, change = centred * inverse, grad * weight[None, :, :, None]
    along = (change * normal).mean(axes, keepdim=True)
    return inverse * (change - change.mean(axes, keepdim=True) - normal * along)


def _built_in_gradient(grad: Tensor, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
    b, g, c, s = x.shape
    mean = x.mean((2, 3))
    inverse = torch.rsqrt(x.var((2, 3), correction=0) + epsilon)
    flat = torch.ops.aten.native_group_norm_backward(
        grad, x, mean, inverse, weight.flatten(), b, g * c, s, g, [True, False, False]
    )
    return flat[0]


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    for size, b, g, c, s in made.chosen((TINY, 2, 2, 3, 5), (USUAL, 8, 32, 8, 1024), (ODD, 7, 10, 7, 997)):
        x, grad = torch.randn(b, g, c, s), torch.randn(b, g, c, s)
        weight, bias, out = torch.rand(g, c) + 0.5, torch.randn(g, c), torch.empty(b, g, c, s)
        made.add("group norm", size, group_norm, (x, weight, bias, out, EPSILON), {"built in": _forward})
        made.add(
            "group norm, gradient", size, group_norm_gradient, (grad, x, weight, out, EPSILON),
            {"formula": _gradient, "built in": _built_in_gradient},
        )  # fmt: skip
    return made.found
