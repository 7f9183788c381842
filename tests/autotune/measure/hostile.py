"""Kernels that go wrong by a constant, as a bad plan would; what reads them is a measuring worker."""

from __future__ import annotations

import numpy as np
from jaxtyping import Float, Int

import vkernels as vk

FAR = 1 << 44
"""Elements to the nearest memory of anybody's."""


@vk.kernel
def scaled(x: Float[vk.Tensor, "N"], index: Int[vk.Tensor, "N"], out: Float[vk.Tensor, "N"], bad: vk.Constant = "no"):
    """`out[i] = 2 x[index[i]]`, unless it goes wrong."""
    i = vk.tile("N")
    place = index[i]
    if bad == "crash":
        place = place + FAR
    y = x[place] * 2
    if bad == "wrong":
        y = y * 1.001
    if bad == "loops":
        n = vk.size("N")
        while n > 0:
            n = n + 0 * n
        y = y * n
    if bad == "slow":
        total = 0.0
        for k in vk.range("N"):
            for l in vk.range("N"):
                total += x[k] * x[l]
        y = y + 0 * total
    if bad != "empty":
        out[i] = y
    else:
        h = vk.tile("N")
        out[h - 1] = x[index[h]] * 2
    if bad == "greedy":
        x[i] = y


@scaled.inputs
def inputs(sizes, dtypes, random):
    return {"index": random.permutation(sizes["N"])}


@vk.kernel
def added(x: Float[vk.Tensor, "N"], total: Float[vk.Tensor, "N"]):
    """Reads what it writes, and doubles it."""
    i = vk.tile("N")
    total[i] = total[i] + total[i] + x[i]


@vk.kernel
def masked(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    """Jumps with rounding: no reference in float64 is near."""
    i = vk.tile("N")
    y = x[i] * 3.0
    out[i] = vk.where(y / 3.0 == x[i], y, -y)


def as_numpy(x: np.ndarray, index: np.ndarray) -> np.ndarray:
    """What `scaled` should give."""
    return 2 * x[index]
