"""Attention in float64, operands for it, and what results may err by."""

from __future__ import annotations

import math

import torch

from .reference import EPSILON, normal

Sizes = tuple[int, int, int, int, int, int]
"""Heads of queries and of keys, queries, keys, elements of a query and of a value."""


def seen(rows: int, keys: int, causal: bool = False, window: int | tuple[int | None, int | None] | None = None):
    """Which keys each query sees: its own place is as far from the last key as it is from the last query."""
    back, ahead = window if isinstance(window, tuple) else (window, window)
    ahead = 0 if causal else ahead
    apart = torch.arange(keys)[None] - (torch.arange(rows)[:, None] + keys - rows)
    found = torch.ones(rows, keys, dtype=torch.bool)
    return (
        found
        & (apart >= -(keys + rows if back is None else back))
        & (apart <= (keys + rows if ahead is None else ahead))
    )


def reference(q, k, v, scale=None, causal=False, window=None) -> torch.Tensor:
    """In float64; what sees no key is 0."""
    q, k, v = (tensor.double() for tensor in (q, k, v))
    shared = q.shape[1] // max(1, k.shape[1])
    k, v = k.repeat_interleave(shared, 1), v.repeat_interleave(shared, 1)
    score = q @ k.transpose(-1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    mask = seen(*score.shape[-2:], causal, window)
    some = mask.any(-1)[:, None]
    return (score.masked_fill(some & ~mask, -math.inf).softmax(-1) @ v).masked_fill(~some, 0.0)


def exactly(grad, q, k, v, **how) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The result and the gradients of q, k and v in float64."""
    exact = [tensor.double().clone().requires_grad_() for tensor in (q, k, v)]
    result = reference(*exact, **how)
    result.backward(grad.double())
    return result.detach(), [tensor.grad for tensor in exact]


def operands(sizes: Sizes, dtype: torch.dtype, seed: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    heads, groups, rows, keys, depth, values = sizes
    shapes = (2, heads, rows, depth), (2, groups, keys, depth), (2, groups, keys, values)
    q, k, v = (normal(shape, dtype, seed + number) for number, shape in enumerate(shapes))
    return q, k, v


def scale_of(q: torch.Tensor, values: float = 1.0) -> float:
    """Exponentials of scores around sqrt(D) err by as many units; those of 16 bits are rounded to them first."""
    computed = EPSILON[torch.float32] if EPSILON[q.dtype] > EPSILON[torch.float32] else EPSILON[q.dtype]
    return values * (math.sqrt(q.shape[-1]) + EPSILON[q.dtype] / computed / 16)
