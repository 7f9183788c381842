"""The Cholesky decomposition of many small matrices, a column at a time."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float

import vkernels as vk

from .case import ODD, TINY, USUAL, Arrays, Dtypes, Random, Sizes, Way, WrittenCase, WrittenCases


@vk.kernel
def cholesky(x: Float[vk.Tensor, "B N N"], out: Float[vk.Tensor, "B N N"]):
    b = vk.tile("B")
    i = vk.whole("N")
    j = vk.whole("N")
    lower = vk.scratch((b, i, j), vk.float32)
    lower[b, i, j] = vk.zeros((b, i, j), vk.float32)
    for k in vk.range("N"):
        vk.phase()
        column = x[b, i, k] - vk.sum(lower[b, i, j] * lower[b, k, j], axis=j)
        pivot = x[b, k, k] - vk.sum(lower[b, k, j] * lower[b, k, j], axis=j)
        vk.phase()
        lower[b, i, k] = vk.where(i >= k, column * vk.rsqrt(pivot), 0.0)
    vk.phase()
    out[b, i, j] = lower[b, i, j]


@cholesky.inputs
def _matrices(sizes: Sizes, dtypes: Dtypes, random: Random) -> Arrays:
    """For tuning, which draws arguments of its own."""
    factor = random.standard_normal((sizes["B"], sizes["N"], sizes["N"]))
    return {"x": (factor @ factor.swapaxes(1, 2) + sizes["N"] * np.eye(sizes["N"])).astype(np.float32)}


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    for size, b, n in made.chosen((TINY, 2, 4), (USUAL, 256, 32), (ODD, 131, 37)):
        factor = torch.randn(b, n, n)
        x = factor @ factor.mT + n * torch.eye(n)
        way = Way(torch.linalg.cholesky, compiled=False)
        made.add("Cholesky", size, cholesky, (x, torch.empty(b, n, n)), {"built in": way}, tolerance=1e-3)
    return made.found
