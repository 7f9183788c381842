"""Copies in another order: flipped, transposed, every second, repeated, interleaved, joined, in parts."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import interpolate, max_pool2d

import vkernels as vk

from .case import ODD, TINY, USUAL, WrittenCase, WrittenCases


@vk.kernel
def flip(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[i, vk.size("N") - 1 - j]


@vk.kernel
def half_turn(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[vk.size("M") - 1 - i, vk.size("N") - 1 - j]


@vk.kernel
def transpose(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "N M"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[j, i] = x[i, j]


@vk.kernel
def heads_first(x: Float[vk.Tensor, "B S H D"], out: Float[vk.Tensor, "B H S D"]):
    b = vk.tile("B")
    h = vk.tile("H")
    s = vk.tile("S")
    d = vk.tile("D")
    out[b, h, s, d] = x[b, s, h, d]


@vk.kernel
def every_second(x: Float[vk.Tensor, "M K"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = x[i, 2 * j]


@vk.kernel
def interleave(x: Float[vk.Tensor, "M N"], y: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M K"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, 2 * j] = x[i, j]
    out[i, 2 * j + 1] = y[i, j]


@vk.kernel
def repeat(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M K"]):
    i = vk.tile("M")
    j = vk.tile("K")
    out[i, j] = x[i, j % vk.size("N")]


@vk.kernel
def repeat_each(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M K"]):
    i = vk.tile("M")
    j = vk.tile("K")
    out[i, j] = x[i, j // 4]


@vk.kernel
def upsample(x: Float[vk.Tensor, "B M N"], out: Float[vk.Tensor, "B P Q"]):
    b = vk.tile("B")
    i = vk.tile("P")
    j = vk.tile("Q")
    out[b, i, j] = x[b, i // 2, j // 2]


@vk.kernel
def pixel_shuffle(x: Float[vk.Tensor, "B C M N"], out: Float[vk.Tensor, "B P Q"]):
    b = vk.tile("B")
    i = vk.tile("P")
    j = vk.tile("Q")
    out[b, i, j] = x[b, 2 * (i % 2) + j % 2, i // 2, j // 2]


@vk.kernel
def join(x: Float[vk.Tensor, "M P"], y: Float[vk.Tensor, "M Q"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = vk.where(j < vk.size("P"), x[i, j], y[i, j - vk.size("P")])


@vk.kernel
def pool(x: Float[vk.Tensor, "B M N"], out: Float[vk.Tensor, "B P Q"]):
    b = vk.tile("B")
    i = vk.tile("P")
    j = vk.tile("Q")
    upper = vk.maximum(x[b, 2 * i, 2 * j], x[b, 2 * i, 2 * j + 1])
    lower = vk.maximum(x[b, 2 * i + 1, 2 * j], x[b, 2 * i + 1, 2 * j + 1])
    out[b, i, j] = vk.maximum(upper, lower)


@vk.kernel
def triangle(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i, j] = vk.where(j <= i, x[i, j], 0.0)


@vk.kernel
def rotate_half(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    half = vk.size("N") // 2
    out[i, j] = vk.where(j < half, -x[i, j + half], x[i, j - half])


def _contiguous_transpose(x: Tensor) -> Tensor:
    return x.mT.contiguous()


def _every_second(x: Tensor) -> Tensor:
    return x[:, ::2].contiguous()


def _interleave(x: Tensor, y: Tensor) -> Tensor:
    return torch.stack((x, y), -1).flatten(1)


def _rotate_half(x: Tensor) -> Tensor:
    a, b = x.chunk(2, 1)
    return torch.cat((-b, a), 1)


def _heads_first(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous()


def _expanded(x: Tensor) -> Tensor:
    b, m, n = x.shape
    return x[:, :, None, :, None].expand(b, m, 2, n, 2).reshape(b, 2 * m, 2 * n)


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    for size, m, n in made.chosen((TINY, 6, 12), (USUAL, 1024, 2048), (ODD, 1022, 1998)):
        x, y, out, wide = torch.randn(m, n), torch.randn(m, n), torch.empty(m, n), torch.empty(m, 2 * n)
        made.add("flip of rows", size, flip, (x, out), {"built in": lambda x: x.flip(1)})
        made.add("half turn", size, half_turn, (x, out), {"built in": lambda x: x.flip(0, 1)})
        made.add("transpose", size, transpose, (x, torch.empty(n, m)), {"built in": _contiguous_transpose})
        made.add("every second", size, every_second, (x, torch.empty(m, n // 2)), {"slice": _every_second})
        made.add("interleave", size, interleave, (x, y, wide), {"stacked": _interleave})
        made.add("repeat", size, repeat, (x, wide), {"built in": lambda x: x.repeat(1, 2)})
        four = {"built in": lambda x: x.repeat_interleave(4, 1)}
        made.add("repeat each", size, repeat_each, (x, torch.empty(m, 4 * n)), four)
        made.add("join", size, join, (x, y, wide), {"built in": lambda x, y: torch.cat((x, y), 1)})
        made.add("triangle", size, triangle, (x, out), {"built in": lambda x: x.tril()})
        made.add("rotate half", size, rotate_half, (x, out), {"chunks": _rotate_half})
    for size, b, s, h, d in made.chosen((TINY, 2, 3, 4, 5), (USUAL, 4, 512, 16, 64), (ODD, 3, 509, 13, 70)):
        x = torch.randn(b, s, h, d)
        made.add("heads first", size, heads_first, (x, torch.empty(b, h, s, d)), {"built in": _heads_first})
    for size, b, m, n in made.chosen((TINY, 8, 4, 6), (USUAL, 2048, 32, 32), (ODD, 1860, 34, 34)):
        x, twice, half = torch.randn(b, m, n), torch.empty(b, 2 * m, 2 * n), torch.empty(b, m // 2, n // 2)
        ways = {"expanded": _expanded, "built in": lambda x: interpolate(x[None], scale_factor=2)[0]}
        made.add("upsample", size, upsample, (x, twice), ways)
        made.add("max pool", size, pool, (x, half), {"built in": lambda x: max_pool2d(x, 2)})
        parts, whole = torch.randn(b // 4, 4, m, n), torch.empty(b // 4, 2 * m, 2 * n)
        ways = {"built in": lambda x: torch.pixel_shuffle(x, 2)[:, 0]}
        made.add("pixel shuffle", size, pixel_shuffle, (parts, whole), ways)
    return made.found
