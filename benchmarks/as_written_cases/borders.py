"""Indices that wrap around, are reflected, or stay at the border."""

from __future__ import annotations

import torch
from jaxtyping import Float
from library_cases.case import Run
from torch import Tensor
from torch.nn.functional import pad

import vkernels as vk

from .case import ODD, TINY, USUAL, WrittenCase, WrittenCases


@vk.kernel
def roll_both(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], down: int, right: int):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[(i - down) % vk.size("M"), (j - right) % vk.size("N")]


@vk.kernel
def roll_down(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], down: int):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[(i - down) % vk.size("M"), j]


@vk.kernel
def halves_swapped(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[(i + vk.size("M") // 2) % vk.size("M"), (j + vk.size("N") // 2) % vk.size("N")]


@vk.kernel
def periodic(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], rate: vk.Scalar):
    i = vk.tile("M")
    j = vk.tile("N")
    rows, columns = vk.size("M"), vk.size("N")
    around = x[(i - 1) % rows, j] + x[(i + 1) % rows, j] + x[i, (j - 1) % columns] + x[i, (j + 1) % columns]
    out[i, j] = x[i, j] + rate * (around - 4 * x[i, j])


@vk.kernel
def pad_zeros(x: Float[vk.Tensor, "B M N"], out: Float[vk.Tensor, "B P Q"]):
    b = vk.tile("B")
    i = vk.tile("P")
    j = vk.tile("Q")
    out[b, i, j] = x[b, i - 2, j - 2]


@vk.kernel
def pad_edge(x: Float[vk.Tensor, "B M N"], out: Float[vk.Tensor, "B P Q"]):
    b = vk.tile("B")
    i = vk.tile("P")
    j = vk.tile("Q")
    out[b, i, j] = x[b, vk.clamp(i - 2, 0, vk.size("M") - 1), vk.clamp(j - 2, 0, vk.size("N") - 1)]


@vk.kernel
def pad_mirror(x: Float[vk.Tensor, "B M N"], out: Float[vk.Tensor, "B P Q"]):
    b = vk.tile("B")
    i = vk.tile("P")
    j = vk.tile("Q")
    rows, columns = vk.size("M") - 1, vk.size("N") - 1
    out[b, i, j] = x[b, rows - vk.abs(rows - vk.abs(i - 2)), columns - vk.abs(columns - vk.abs(j - 2))]


@vk.kernel
def pad_wrap(x: Float[vk.Tensor, "B M N"], out: Float[vk.Tensor, "B P Q"]):
    b = vk.tile("B")
    i = vk.tile("P")
    j = vk.tile("Q")
    out[b, i, j] = x[b, (i - 2) % vk.size("M"), (j - 2) % vk.size("N")]


@vk.kernel
def edge_stencil(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    left, right = vk.maximum(j - 1, 0), vk.minimum(j + 1, vk.size("N") - 1)
    out[i, j] = 0.25 * x[i, left] + 0.5 * x[i, j] + 0.25 * x[i, right]


def _halves_swapped(x: Tensor) -> Tensor:
    m, n = x.shape
    return torch.roll(x, (-(m // 2), -(n // 2)), (0, 1))


def _periodic(x: Tensor, rate: float) -> Tensor:
    around = x.roll(1, 0) + x.roll(-1, 0) + x.roll(1, 1) + x.roll(-1, 1)
    return x + rate * (around - 4 * x)


def _edge(x: Tensor) -> Tensor:
    p = pad(x[None], (1, 1), mode="replicate")[0]
    return 0.25 * p[:, :-2] + 0.5 * x + 0.25 * p[:, 2:]


def _padded(mode: str) -> Run:
    return lambda x: pad(x, (2, 2, 2, 2), mode=mode)


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    for size, m, n, by in made.chosen((TINY, 5, 11, 2), (USUAL, 1024, 2048, 5), (ODD, 1021, 1999, 7)):
        x, out = torch.randn(m, n), torch.empty(m, n)
        both = {"built in": lambda x, down, right: torch.roll(x, (down, right), (0, 1))}
        made.add("roll of both", size, roll_both, (x, out, by, by + 1), both)
        made.add("roll down", size, roll_down, (x, out, by), {"built in": lambda x, by: torch.roll(x, by, 0)})
        made.add("halves swapped", size, halves_swapped, (x, out), {"built in": _halves_swapped})
        made.add("periodic stencil", size, periodic, (x, out, 0.1), {"rolls": _periodic})
        made.add("stencil, edge repeated", size, edge_stencil, (x, out), {"padded": _edge})
    for size, b, m, n in made.chosen((TINY, 2, 4, 7), (USUAL, 256, 64, 64), (ODD, 255, 61, 67)):
        x, out = torch.randn(b, m, n), torch.empty(b, m + 4, n + 4)
        made.add("padding, zeros", size, pad_zeros, (x, out), {"built in": _padded("constant")})
        made.add("padding, edge", size, pad_edge, (x, out), {"built in": _padded("replicate")})
        made.add("padding, mirror", size, pad_mirror, (x, out), {"built in": _padded("reflect")})
        made.add("padding, wrap", size, pad_wrap, (x, out), {"built in": _padded("circular")})
    return made.found
