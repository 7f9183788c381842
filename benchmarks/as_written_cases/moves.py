"""Shifts and gathers along whole rows."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad

import vkernels as vk

from .case import ODD, TINY, USUAL, Arrays, Dtypes, Random, Sizes, WrittenCase, WrittenCases


@vk.kernel
def shift(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], by: int):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = x[i, j - by]


@vk.kernel
def roll(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], by: int):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = x[i, (j - by) % vk.size("N")]


@vk.kernel
def take_along_rows(x: Float[vk.Tensor, "M N"], index: Int[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = x[i, index[i, j]]


@vk.kernel
def take_rows(x: Float[vk.Tensor, "K N"], index: Int[vk.Tensor, "M"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = x[index[i], j]


@take_along_rows.inputs
def _places(sizes: Sizes, dtypes: Dtypes, random: Random) -> Arrays:
    """For tuning, which draws arguments of its own."""
    return {"index": random.integers(sizes["N"], size=(sizes["M"], sizes["N"]))}


@take_rows.inputs
def _rows(sizes: Sizes, dtypes: Dtypes, random: Random) -> Arrays:
    """For tuning, which draws arguments of its own."""
    return {"index": random.integers(sizes["K"], size=sizes["M"])}


def _shift(x: Tensor, by: int) -> Tensor:
    return pad(x, (by, -by))


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    for size, m, n, by in made.chosen((TINY, 3, 11, 2), (USUAL, 1024, 2048, 5), (ODD, 1021, 1999, 7)):
        x, out = torch.randn(m, n), torch.empty(m, n)
        made.add("shift of rows", size, shift, (x, out, by), {"padded": _shift})
        made.add("roll of rows", size, roll, (x, out, by), {"built in": lambda x, by: torch.roll(x, by, 1)})
        index = torch.randint(n, (m, n))
        ways = {"built in": lambda x, index: torch.gather(x, 1, index)}
        made.add("gather along rows", size, take_along_rows, (x, index, out), ways)
        rows = torch.randint(m, (m,))
        made.add("gather of rows", size, take_rows, (x, rows, out), {"built in": lambda x, rows: x[rows]})
    return made.found
