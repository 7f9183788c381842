"""A product with weights of four bits, two in a byte, and counts of integers."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Complex64, Float, Int, UInt4
from torch import Tensor

import vkernels as vk

from .case import ODD, TINY, USUAL, Arrays, Dtypes, Random, Sizes, Way, WrittenCase, WrittenCases


@vk.kernel
def int4_matmul(
    x: Float[vk.Tensor, "M K"],
    weight: UInt4[vk.Tensor, "N K"],
    scale: Float[vk.Tensor, "N"],
    out: Float[vk.Tensor, "M N"],
):
    i = vk.tile("M")
    n = vk.tile("N")
    k = vk.whole("K")
    out[i, n] = vk.dot(x[i, k], weight[n, k] - 8.0) * scale[n]


@vk.kernel
def complex_matmul(x: Complex64[vk.Tensor, "M K"], y: Complex64[vk.Tensor, "K N"], out: Complex64[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(x[i, k], y[k, j])


@vk.kernel
def complex_product(x: Complex64[vk.Tensor, "N"], y: Complex64[vk.Tensor, "N"], out: Complex64[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i] * y[i]


@vk.kernel
def bincount(x: Int[vk.Tensor, "N"], out: Int[vk.Tensor, "K"]):
    i = vk.tile("N")
    vk.atomic_add(out[x[i]], 1)


@bincount.inputs
def _numbers(sizes: Sizes, dtypes: Dtypes, random: Random) -> Arrays:
    """For tuning, which draws arguments of its own."""
    return {"x": random.integers(sizes["K"], size=sizes["N"]), "out": np.zeros(sizes["K"], np.int64)}


def _unpacked(x: Tensor, turned: Tensor, scale: Tensor) -> Tensor:
    packed = turned.T  # whose bytes lie side by side along the columns of the result
    weight = torch.stack((packed & 15, packed >> 4), 1).flatten(0, 1).to(x.dtype) - 8
    return x @ weight * scale


def _unpacked_rows(x: Tensor, packed: Tensor, scale: Tensor) -> Tensor:
    weight = torch.stack((packed & 15, packed >> 4), -1).flatten(1)[:, : x.shape[1]].to(x.dtype) - 8
    return x @ weight.T * scale


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    for size, m, d, n in made.chosen((TINY, 3, 8, 5), (USUAL, 16, 1024, 1024), (ODD, 13, 1002, 771)):
        packed = torch.randint(256, (d // 2, n), dtype=torch.uint8)
        given = torch.randn(m, d), packed.T, torch.rand(n) + 0.5, torch.empty(m, n)
        made.add("int4 product", size, int4_matmul, given, {"unpacked": _unpacked})
    for size, d, n in made.chosen((TINY, 7, 5), (USUAL, 4096, 1024), (ODD, 4095, 771)):
        packed = torch.randint(256, (n, (d + 1) // 2), dtype=torch.uint8)
        given = torch.randn(1, d), packed, torch.rand(n) + 0.5, torch.empty(1, n)
        made.add("int4 product of one row", size, int4_matmul, given, {"unpacked": _unpacked_rows})
    for size, m, d, n in made.chosen((TINY, 3, 8, 5), (USUAL, 256, 256, 256), (ODD, 255, 257, 131)):
        given = *(torch.randn(*each, dtype=torch.complex64) for each in ((m, d), (d, n))), torch.empty(m, n) + 0j
        made.add("complex matmul", size, complex_matmul, given, {"built in": Way(torch.matmul, compiled=False)})
    for size, n in made.chosen((TINY, 50), (USUAL, 1 << 20), (ODD, 10007)):
        given = *(torch.randn(n, dtype=torch.complex64) for _ in range(2)), torch.empty(n) + 0j
        made.add("complex product", size, complex_product, given, {"built in": Way(torch.mul, compiled=False)})
    for size, n, k in made.chosen((TINY, 50, 7), (USUAL, 1 << 20, 1024), (ODD, 1000003, 997)):
        way = Way(lambda x, k=k: torch.bincount(x, minlength=k), compiled=False)
        given = torch.randint(k, (n,)), torch.zeros(k, dtype=torch.int64)
        made.add("bincount", size, bincount, given, {"built in": way}, zeroed=True)
    return made.found
