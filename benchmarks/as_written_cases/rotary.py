"""Rotary embedding of pairs side by side, and of halves; with memory of its own and in place."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import vkernels as vk

from .case import ODD, TINY, USUAL, WrittenCase, WrittenCases


@vk.kernel
def pairs(
    x: Float[vk.Tensor, "M H D"],
    cos: Float[vk.Tensor, "M P"],
    sin: Float[vk.Tensor, "M P"],
    out: Float[vk.Tensor, "M H D"],
):
    m = vk.tile("M")
    h = vk.tile("H")
    p = vk.tile("P")
    a, b = x[m, h, 2 * p], x[m, h, 2 * p + 1]
    out[m, h, 2 * p] = a * cos[m, p] - b * sin[m, p]
    out[m, h, 2 * p + 1] = a * sin[m, p] + b * cos[m, p]


@vk.kernel
def pairs_in_place(x: Float[vk.Tensor, "M H D"], cos: Float[vk.Tensor, "M P"], sin: Float[vk.Tensor, "M P"]):
    m = vk.tile("M")
    h = vk.tile("H")
    p = vk.tile("P")
    a, b = x[m, h, 2 * p], x[m, h, 2 * p + 1]
    x[m, h, 2 * p] = a * cos[m, p] - b * sin[m, p]
    x[m, h, 2 * p + 1] = a * sin[m, p] + b * cos[m, p]


@vk.kernel
def halves(
    x: Float[vk.Tensor, "M H D"],
    cos: Float[vk.Tensor, "M P"],
    sin: Float[vk.Tensor, "M P"],
    out: Float[vk.Tensor, "M H D"],
):
    m = vk.tile("M")
    h = vk.tile("H")
    p = vk.whole("P")
    a, b = x[m, h, p], x[m, h, p + vk.size("P")]
    out[m, h, p] = a * cos[m, p] - b * sin[m, p]
    out[m, h, p + vk.size("P")] = a * sin[m, p] + b * cos[m, p]


@vk.kernel
def halves_in_place(x: Float[vk.Tensor, "M H D"], cos: Float[vk.Tensor, "M P"], sin: Float[vk.Tensor, "M P"]):
    m = vk.tile("M")
    h = vk.tile("H")
    p = vk.whole("P")
    a, b = x[m, h, p], x[m, h, p + vk.size("P")]
    x[m, h, p] = a * cos[m, p] - b * sin[m, p]
    x[m, h, p + vk.size("P")] = a * sin[m, p] + b * cos[m, p]


def _pairs(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b, cos, sin = x[..., 0::2], x[..., 1::2], cos[:, None], sin[:, None]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def _halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    (a, b), cos, sin = x.chunk(2, -1), cos[:, None], sin[:, None]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    for size, m, h, d in made.chosen((TINY, 3, 2, 6), (USUAL, 1024, 16, 64), (ODD, 1021, 13, 70)):
        x, angles = torch.randn(m, h, d), torch.randn(m, d // 2)
        given = x, angles.cos(), angles.sin()
        out = torch.empty_like(x)
        made.add("rotary of pairs", size, pairs, (*given, out), {"slices": _pairs})
        made.add("rotary of halves", size, halves, (*given, out), {"chunks": _halves})
        in_place = (("pairs", pairs_in_place, _pairs), ("halves", halves_in_place, _halves))
        for name, kernel, way in in_place:
            run = lambda x, cos, sin, way=way: x.copy_(way(x, cos, sin))  # noqa: E731
            own = x.clone(), *given[1:]
            made.add(f"rotary of {name} in place", size, kernel, own, {"copied back": run}, results=("x",))
    return made.found
