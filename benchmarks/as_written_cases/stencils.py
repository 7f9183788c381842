"""Several steps of a banded matrix and of a stencil in three dimensions: a call for each."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import conv3d, pad

import vkernels as vk

from .case import ODD, TINY, USUAL, Way, WrittenCase, WrittenCases

STEPS = 4


@vk.kernel
def banded(x: Float[vk.Tensor, "N"], band: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    k = vk.whole("K")
    out[i] = vk.sum(band[k, i] * x[i + k - vk.size("K") // 2], axis=k)


@vk.kernel
def heat(x: Float[vk.Tensor, "L M N"], out: Float[vk.Tensor, "L M N"], rate: vk.Scalar):
    a = vk.tile("L")
    b = vk.tile("M")
    c = vk.tile("N")
    around = x[a - 1, b, c] + x[a + 1, b, c] + x[a, b - 1, c] + x[a, b + 1, c] + x[a, b, c - 1] + x[a, b, c + 1]
    out[a, b, c] = x[a, b, c] + rate * (around - 6 * x[a, b, c])


def _banded(x: Tensor, band: Tensor) -> Tensor:
    width = band.shape[0] // 2
    for _ in range(STEPS):
        x = (band * pad(x, (width, width)).unfold(0, x.shape[0], 1)).sum(0)
    return x


def _slices(x: Tensor, rate: float) -> Tensor:
    for _ in range(STEPS):
        p = pad(x, (1, 1, 1, 1, 1, 1))
        rows = p[:-2, 1:-1, 1:-1] + p[2:, 1:-1, 1:-1] + p[1:-1, :-2, 1:-1] + p[1:-1, 2:, 1:-1]
        x = x + rate * (rows + p[1:-1, 1:-1, :-2] + p[1:-1, 1:-1, 2:] - 6 * x)
    return x


def _convolved(x: Tensor, rate: float) -> Tensor:
    face = [[0.0, 0.0, 0.0], [0.0, rate, 0.0], [0.0, 0.0, 0.0]]
    middle = [[0.0, rate, 0.0], [rate, 1 - 6 * rate, rate], [0.0, rate, 0.0]]
    weight = torch.tensor([[[face, middle, face]]], dtype=x.dtype)
    for _ in range(STEPS):
        x = conv3d(x[None, None], weight, padding=1)[0, 0]
    return x


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    for size, n, k in made.chosen((TINY, 19, 5), (USUAL, 1 << 18, 9), (ODD, 200003, 7)):
        given = torch.randn(n), torch.rand(k, n) / k, torch.empty(n)
        made.add("banded matrix", size, banded, given, {"unfolded": _banded}, repeats=STEPS)
    for size, shape in made.chosen((TINY, (3, 4, 5)), (USUAL, (64, 64, 128)), (ODD, (61, 67, 101))):
        x = torch.randn(shape)
        ways = {"slices": _slices, "convolution": Way(_convolved, compiled=False)}
        made.add("stencil in 3-D", size, heat, (x, torch.empty(shape), 0.1), ways, repeats=STEPS)
    return made.found
