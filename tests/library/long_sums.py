"""Kernels that add up long axes, and data whose sums are hard to add."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int

import vkernels as vk

UNIT = {torch.float32: 2.0**-24, torch.float64: 2.0**-53}
"""Unit roundoffs."""


@vk.kernel
def sum_rows(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i] = vk.sum(x[i, j], axis=j)


@vk.kernel
def sum_columns(x: Float[vk.Tensor, "N M"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i] = vk.sum(x[j, i], axis=j)


@vk.kernel
def sum_in_a_range(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    total = vk.zeros((i,), x.dtype)
    for k in vk.range("N"):
        total += x[i, k]
    out[i] = total


@vk.kernel
def sum_in_a_ragged_range(x: Float[vk.Tensor, "M N"], length: Int[vk.Tensor, "M"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    total = vk.zeros((i,), x.dtype)
    for k in vk.range(length[i]):
        total += x[i, k]
    out[i] = total


@vk.kernel
def sum_of_sums(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "1"]):
    one = vk.tile(1)
    i = vk.whole("M")
    j = vk.whole("N")
    out[one] = vk.sum(x[i, j], axis=(i, j))


@vk.kernel
def add_up(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"], total: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    out[i, j] = vk.cumulative_sum(row, axis=j)
    total[i] = vk.sum(row, axis=j)


@vk.kernel
def products(a: Float[vk.Tensor, "M K"], b: Float[vk.Tensor, "K N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.dot(a[i, k], b[k, j])


@vk.kernel
def sum_of_exponentials(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    out[i] = vk.sum(vk.exp(row - vk.max(row, axis=j)), axis=j)


def constant(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """One number everywhere: each addition is rounded the same way."""
    return torch.full(shape, 0.1 + float(torch.rand((), generator=generator)), dtype=torch.float64)


def tenths(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    return torch.full(shape, 0.1, dtype=torch.float64)


def alternating(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """A large number and its negative in turn, each with a small part of its own."""
    signs = 1.0 - 2.0 * (torch.arange(shape[-1]) % 2)
    return 1000.0 * signs + torch.rand(shape, generator=generator, dtype=torch.float64)


def ill_conditioned(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Numbers of very different sizes that nearly cancel."""
    half = torch.randn((*shape[:-1], shape[-1] // 2), generator=generator, dtype=torch.float64)
    half = half * torch.exp2(torch.randint(-20, 20, half.shape, generator=generator).double())
    rest = torch.randn((*shape[:-1], shape[-1] - 2 * half.shape[-1]), generator=generator, dtype=torch.float64)
    mirrored = -half.flip(-1) + torch.randn(half.shape, generator=generator, dtype=torch.float64)
    return torch.cat([half, rest, mirrored], -1)


def growing(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """From 0 to 1: a maximum that every chunk exceeds a little."""
    return torch.linspace(0, 1, shape[-1], dtype=torch.float64).expand(shape)


KINDS: dict[str, Callable[[tuple[int, ...], torch.Generator], torch.Tensor]] = {
    "constant": constant,
    "tenths": tenths,
    "alternating": alternating,
    "ill-conditioned": ill_conditioned,
    "growing": growing,
}
