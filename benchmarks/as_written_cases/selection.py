"""The most probable elements of each row that together have some mass, by bisection of the least probability."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import vkernels as vk

from .case import ODD, TINY, USUAL, WrittenCase, WrittenCases


@vk.kernel
def top_p(probability: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], mass: vk.Scalar):
    i = vk.tile("M")
    j = vk.whole("N")
    row = probability[i, j]
    high = vk.max(row, axis=j)
    low = 0.0 * high
    for _ in vk.range(24):
        middle = 0.5 * (low + high)
        kept = vk.sum(vk.where(row >= middle, row, 0.0), axis=j)
        low = vk.where(kept >= mass, middle, low)
        high = vk.where(kept >= mass, high, middle)
    chosen = vk.where(row >= low, row, 0.0)
    out[i, j] = chosen / vk.sum(chosen, axis=j)


def _sorted(probability: Tensor, mass: float) -> Tensor:
    ordered, place = probability.sort(-1, descending=True)
    kept = torch.where(ordered.cumsum(-1) - ordered < mass, ordered, 0.0)
    chosen = torch.zeros_like(probability).scatter(-1, place, kept)
    return chosen / chosen.sum(-1, keepdim=True)


def _bisected(probability: Tensor, mass: float) -> Tensor:
    high = probability.amax(-1, keepdim=True)
    low = torch.zeros_like(high)
    for _ in range(24):
        middle = 0.5 * (low + high)
        enough = torch.where(probability >= middle, probability, 0.0).sum(-1, keepdim=True) >= mass
        low, high = torch.where(enough, middle, low), torch.where(enough, high, middle)
    chosen = torch.where(probability >= low, probability, 0.0)
    return chosen / chosen.sum(-1, keepdim=True)


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    for size, m, n in made.chosen((TINY, 3, 11), (USUAL, 64, 8192), (ODD, 61, 9973)):
        probability = torch.softmax(3 * torch.randn(m, n), -1)
        ways = {"by sorting": _sorted, "by bisection": _bisected}
        made.add("top-p", size, top_p, (probability, torch.empty(m, n), 0.9), ways, tolerance=1e-3)
    return made.found
