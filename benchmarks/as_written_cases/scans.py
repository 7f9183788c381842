"""A selective scan, as a loop over time."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

import vkernels as vk

from .case import ODD, TINY, USUAL, Way, WrittenCase, WrittenCases


@vk.kernel
def selective_scan(
    u: Float[vk.Tensor, "B L D"],
    step: Float[vk.Tensor, "B L D"],
    decay: Float[vk.Tensor, "D N"],
    enters: Float[vk.Tensor, "B L N"],
    leaves: Float[vk.Tensor, "B L N"],
    out: Float[vk.Tensor, "B L D"],
):
    b = vk.tile("B")
    d = vk.tile("D")
    n = vk.whole("N")
    state = vk.zeros((b, d, n), vk.float32)
    for t in vk.range("L"):
        size = step[b, t, d]
        state = vk.exp(size * decay[d, n]) * state + size * u[b, t, d] * enters[b, t, n]
        out[b, t, d] = vk.sum(state * leaves[b, t, n], axis=n)


def _loop(u: Tensor, step: Tensor, decay: Tensor, enters: Tensor, leaves: Tensor) -> Tensor:
    state = torch.zeros(u.shape[0], *decay.shape, dtype=u.dtype)
    out = torch.empty_like(u)
    for t in range(u.shape[1]):
        size = step[:, t, :, None]
        state = torch.exp(size * decay) * state + size * u[:, t, :, None] * enters[:, t, None]
        out[:, t] = (state * leaves[:, t, None]).sum(-1)
    return out


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    for size, b, length, d, n in made.chosen((TINY, 2, 5, 3, 4), (USUAL, 2, 256, 256, 16), (ODD, 1, 251, 197, 13)):
        u, step = torch.randn(b, length, d), torch.rand(b, length, d)
        enters, leaves, decay = torch.randn(b, length, n), torch.randn(b, length, n), -torch.rand(d, n)
        given = u, step, decay, enters, leaves, torch.empty(b, length, d)
        # torch.compile unrolls the loop, which takes minutes.
        made.add("selective scan", size, selective_scan, given, {"loop": Way(_loop, compiled=False)})
    return made.found
