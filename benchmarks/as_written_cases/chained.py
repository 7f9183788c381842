"""Products of what all tiles of the same rows have in common: norms, another product, a low-rank one."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

import vkernels as vk

from .case import ODD, TINY, USUAL, WrittenCase, WrittenCases


@vk.kernel
def norm_linear(
    x: Float[vk.Tensor, "M K"], gain: Float[vk.Tensor, "K"], w: Float[vk.Tensor, "N K"], out: Float[vk.Tensor, "M N"]
):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    scale = vk.rsqrt(vk.mean(x[i, k] * x[i, k], axis=k) + 1e-6)
    out[i, j] = vk.dot(x[i, k] * scale * gain[k], w[j, k])


@vk.kernel
def two_layers(
    x: Float[vk.Tensor, "M K"], w: Float[vk.Tensor, "H K"], v: Float[vk.Tensor, "N H"], out: Float[vk.Tensor, "M N"]
):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    h = vk.whole("H")
    hidden = vk.maximum(vk.dot(x[i, k], w[h, k]), 0)
    out[i, j] = vk.dot(hidden, v[j, h])


@vk.kernel
def low_rank(
    x: Float[vk.Tensor, "M K"], w: Float[vk.Tensor, "N K"], a: Float[vk.Tensor, "R K"], b: Float[vk.Tensor, "N R"],
    out: Float[vk.Tensor, "M N"],
):  # fmt: skip
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    r = vk.whole("R")
    out[i, j] = vk.dot(x[i, k], w[j, k]) + vk.dot(vk.dot(x[i, k], a[r, k]), b[j, r])


@vk.kernel
def cosines(x: Float[vk.Tensor, "M K"], y: Float[vk.Tensor, "N K"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    of_x = vk.sqrt(vk.sum(x[i, k] * x[i, k], axis=k))
    of_y = vk.sqrt(vk.sum(y[j, k] * y[j, k], axis=k))
    out[i, j] = vk.dot(x[i, k], y[j, k]) / (of_x * of_y)


def _norm_linear(x: Tensor, gain: Tensor, w: Tensor) -> Tensor:
    return functional.linear(functional.rms_norm(x, (x.shape[1],), gain, 1e-6), w)


def _two_layers(x: Tensor, w: Tensor, v: Tensor) -> Tensor:
    return functional.linear(functional.relu(functional.linear(x, w)), v)


def _low_rank(x: Tensor, w: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return x @ w.T + (x @ a.T) @ b.T


def _cosines(x: Tensor, y: Tensor) -> Tensor:
    return functional.normalize(x) @ functional.normalize(y).T


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    shapes = ((TINY, 5, 7, 6, 3), (USUAL, 256, 512, 512, 16), (ODD, 253, 511, 500, 17))
    for size, m, k, n, rank in made.chosen(*shapes):
        x, w, out = torch.randn(m, k), torch.randn(n, k) / k**0.5, torch.empty(m, n)
        made.add("norm and product", size, norm_linear, (x, torch.rand(k) + 0.5, w, out), {"plain": _norm_linear})
        low = torch.randn(rank, k) / k**0.5, torch.randn(n, rank)
        made.add("low-rank update", size, low_rank, (x, w, *low, torch.empty(m, n)), {"plain": _low_rank})
    for size, m, k, h, n in made.chosen((TINY, 5, 7, 6, 3), (USUAL, 256, 128, 256, 128), (ODD, 255, 131, 257, 127)):
        given = torch.randn(m, k), torch.randn(h, k) / k**0.5, torch.randn(n, h) / h**0.5, torch.empty(m, n)
        made.add("two layers", size, two_layers, given, {"plain": _two_layers})
    for size, m, n, k in made.chosen((TINY, 5, 7, 6), (USUAL, 512, 512, 128), (ODD, 301, 397, 129)):
        pair = torch.randn(m, k), torch.randn(n, k), torch.empty(m, n)
        made.add("cosines", size, cosines, pair, {"plain": _cosines})
    return made.found
