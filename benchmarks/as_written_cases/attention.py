"""Attention written as its formula: plain, causal, within a window, with a bias and a soft cap, of grouped queries."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention as built_in

import vkernels as vk

from .case import ODD, TINY, USUAL, WrittenCase, WrittenCases


@vk.kernel
def plain(
    q: Float[vk.Tensor, "B H M D"],
    k: Float[vk.Tensor, "B H N D"],
    v: Float[vk.Tensor, "B H N E"],
    out: Float[vk.Tensor, "B H M E"],
    scale: vk.Scalar,
):
    b = vk.tile("B")
    h = vk.tile("H")
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    score = vk.dot(q[b, h, i, d], k[b, h, j, d], axis=d) * scale
    p = vk.exp(score - vk.max(score, axis=j))
    out[b, h, i, e] = vk.dot(p, v[b, h, j, e], axis=j) / vk.sum(p, axis=j)


@vk.kernel
def causal(
    q: Float[vk.Tensor, "B H M D"],
    k: Float[vk.Tensor, "B H N D"],
    v: Float[vk.Tensor, "B H N E"],
    out: Float[vk.Tensor, "B H M E"],
    scale: vk.Scalar,
):
    b = vk.tile("B")
    h = vk.tile("H")
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    score = vk.dot(q[b, h, i, d], k[b, h, j, d], axis=d) * scale
    score = vk.where(j <= i, score, float("-inf"))
    p = vk.exp(score - vk.max(score, axis=j))
    out[b, h, i, e] = vk.dot(p, v[b, h, j, e], axis=j) / vk.sum(p, axis=j)


@vk.kernel
def windowed(
    q: Float[vk.Tensor, "B H M D"],
    k: Float[vk.Tensor, "B H N D"],
    v: Float[vk.Tensor, "B H N E"],
    out: Float[vk.Tensor, "B H M E"],
    scale: vk.Scalar,
    window: vk.Scalar,
):
    b = vk.tile("B")
    h = vk.tile("H")
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    score = vk.dot(q[b, h, i, d], k[b, h, j, d], axis=d) * scale
    score = vk.where((j <= i) & (i - j < window), score, float("-inf"))
    p = vk.exp(score - vk.max(score, axis=j))
    out[b, h, i, e] = vk.dot(p, v[b, h, j, e], axis=j) / vk.sum(p, axis=j)


@vk.kernel
def capped(
    q: Float[vk.Tensor, "B H M D"],
    k: Float[vk.Tensor, "B H N D"],
    v: Float[vk.Tensor, "B H N E"],
    bias: Float[vk.Tensor, "H M N"],
    out: Float[vk.Tensor, "B H M E"],
    scale: vk.Scalar,
    cap: vk.Scalar,
):
    b = vk.tile("B")
    h = vk.tile("H")
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    score = vk.dot(q[b, h, i, d], k[b, h, j, d], axis=d) * scale
    score = cap * vk.tanh(score / cap) + bias[h, i, j]
    p = vk.exp(score - vk.max(score, axis=j))
    out[b, h, i, e] = vk.dot(p, v[b, h, j, e], axis=j) / vk.sum(p, axis=j)


@vk.kernel
def grouped(
    q: Float[vk.Tensor, "B G R M D"],
    k: Float[vk.Tensor, "B G N D"],
    v: Float[vk.Tensor, "B G N E"],
    out: Float[vk.Tensor, "B G R M E"],
    scale: vk.Scalar,
):
    b = vk.tile("B")
    g = vk.tile("G")
    r = vk.tile("R")
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    score = vk.dot(q[b, g, r, i, d], k[b, g, j, d], axis=d) * scale
    p = vk.exp(score - vk.max(score, axis=j))
    out[b, g, r, i, e] = vk.dot(p, v[b, g, j, e], axis=j) / vk.sum(p, axis=j)


def _plain(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return built_in(q, k, v, scale=scale)


def _causal(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return built_in(q, k, v, scale=scale, is_causal=True)


def _masked(q: Tensor, k: Tensor, v: Tensor, scale: float, window: int) -> Tensor:
    i, j = torch.arange(q.shape[2])[:, None], torch.arange(k.shape[2])
    return built_in(q, k, v, attn_mask=(j <= i) & (i - j < window), scale=scale)


def _capped(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, scale: float, cap: float) -> Tensor:
    return torch.softmax(cap * torch.tanh(q @ k.mT * (scale / cap)) + bias, -1) @ v


def _grouped(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    return built_in(q.flatten(1, 2), k, v, scale=scale, enable_gqa=True).view(q.shape)


def cases(*sizes: str) -> list[WrittenCase]:
    made = WrittenCases(sizes)
    shapes = ((TINY, 2, 9, 8), (USUAL, 8, 512, 64), (USUAL, 4, 512, 128), (ODD, 3, 389, 64), (ODD, 3, 389, 128))
    for size, h, m, d in made.chosen(*shapes):
        q, k, v = (torch.randn(1, h, m, d) for _ in range(3))
        bias, out, scale, window = torch.randn(h, m, m), torch.empty(1, h, m, d), d**-0.5, max(2, m // 4)
        made.add(
            "attention",
            size,
            plain,
            (q, k, v, out, scale),
            {"built in": lambda *given: built_in(*given[:3], scale=given[3])},
        )
        made.add(
            "attention, causal", size, causal, (q, k, v, out, scale),
            {"built in": lambda *given: built_in(*given[:3], scale=given[3], is_causal=True)},
        )  # fmt: skip
        made.add("attention, window", size, windowed, (q, k, v, out, scale, window), {"mask": _masked})
        made.add("attention, bias and cap", size, capped, (q, k, v, bias, out, scale, 20.0), {"formula": _capped})
        keys, values, queries = torch.randn(1, h, m, d), torch.randn(1, h, m, d), torch.randn(1, h, 4, m, d)
        given = queries, keys, values, torch.empty_like(queries), scale
        made.add("attention, grouped", size, grouped, given, {"built in": _grouped})
    return made.found
