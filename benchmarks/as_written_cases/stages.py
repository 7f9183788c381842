"""Kernels of parts that wait for one another and go along other axes, and the nearest of many."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int64
from torch import Tensor

import vkernels as vk

from .case import ODD, TINY, USUAL, Run, WrittenCase, WrittenCases

ROUNDS = 5


@vk.kernel
def centred(x: Float[vk.Tensor, "M N"], mean: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "M N"]):
    j = vk.tile("N")
    rows = vk.whole("M")
    mean[j] = vk.mean(x[rows, j], axis=rows)
    vk.phase(grid=True)
    i = vk.tile("M")
    columns = vk.whole("N")
    out[i, columns] = x[i, columns] - mean[columns]


@vk.kernel
def balanced(
    x: Float[vk.Tensor, "M N"], u: Float[vk.Tensor, "M"], v: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "M N"]
):
    i, columns = vk.tile("M"), vk.whole("N")
    j, rows = vk.tile("N"), vk.whole("M")
    v[j] = 1.0
    vk.phase(grid=True)
    for _ in range(ROUNDS):
        u[i] = 1 / vk.sum(x[i, columns] * v[columns], axis=columns)
        vk.phase(grid=True)
        v[j] = 1 / vk.sum(x[rows, j] * u[rows], axis=rows)
        vk.phase(grid=True)
    out[i, columns] = u[i] * x[i, columns] * v[columns]


@vk.kernel
def nearest(
    x: Float[vk.Tensor, "M D"],
    y: Float[vk.Tensor, "N D"],
    square: Float[vk.Tensor, "M K"],
    place: Int64[vk.Tensor, "M K"],
):
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    k = vk.whole("K")
    norms = vk.sum(x[i, d] * x[i, d], axis=d) + vk.sum(y[j, d] * y[j, d], axis=d)
    square[i, k], place[i, k] = vk.topk(norms - 2 * vk.dot(x[i, d], y[j, d]), k, axis=j, largest=False)


@vk.kernel
def gram(x: Float[vk.Tensor, "N M K"], out: Float[vk.Tensor, "M M"]):
    i = vk.tile("M")
    j = vk.tile("M")
    n = vk.whole("N")
    k = vk.whole("K")
    out[i, j] = vk.sum(x[n, i, k] * x[n, j, k], axis=(n, k))


def _centred(x: Tensor) -> tuple[Tensor, Tensor]:
    return x.mean(0), x - x.mean(0)


def _balanced(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    v = torch.ones_like(x[0])
    u = v[:0]
    for _ in range(ROUNDS):
        u = 1 / (x @ v)
        v = 1 / (x.T @ u)
    return u, v, u[:, None] * x * v


def _nearest(count: int) -> Run:
    def ways(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        squares = (x * x).sum(1)[:, None] + (y * y).sum(1) - 2 * x @ y.T
        found = squares.topk(count, largest=False)
        return found.values, found.indices

    return ways


def _gram(x: Tensor) -> Tensor:
    return torch.einsum("nik,njk->ij", x, x)


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    for size, m, n in made.chosen((TINY, 5, 7), (USUAL, 4096, 512), (ODD, 1001, 333)):
        given = torch.randn(m, n), torch.empty(n), torch.empty(m, n)
        made.add("centred columns", size, centred, given, {"plain": _centred}, results=("mean", "out"))
    for size, m, n in made.chosen((TINY, 5, 7), (USUAL, 512, 256), (ODD, 301, 199)):
        arguments = torch.rand(m, n) + 0.1, torch.empty(m), torch.empty(n), torch.empty(m, n)
        made.add("balanced matrix", size, balanced, arguments, {"plain": _balanced}, results=("u", "v", "out"))
    for size, m, n, d, k in made.chosen((TINY, 3, 9, 5, 2), (USUAL, 512, 4096, 64, 10), (ODD, 129, 2001, 33, 7)):
        found = torch.randn(m, d), torch.randn(n, d), torch.empty(m, k), torch.empty(m, k, dtype=torch.int64)
        made.add("nearest", size, nearest, found, {"plain": _nearest(k)}, results=("square", "place"))
    for size, n, m, k in made.chosen((TINY, 2, 5, 3), (USUAL, 50, 96, 64), (ODD, 16, 255, 49)):
        made.add("sum of Gram matrices", size, gram, (torch.randn(n, m, k), torch.empty(m, m)), {"plain": _gram})
    return made.found
