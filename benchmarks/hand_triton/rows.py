"""Softmax and layer normalisation of rows: a row at once, or in chunks where it is too long for that."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def softmax(x, out, N, BN: tl.constexpr):
    """A program a row of at most BN elements."""
    start = tl.program_id(0).to(tl.int64) * N
    j = tl.arange(0, BN)
    row = tl.load(x + start + j, mask=j < N, other=float("-inf")).to(tl.float32)
    e = tl.exp(row - tl.max(row, 0))
    tl.store(out + start + j, (e / tl.sum(e, 0)).to(out.dtype.element_ty), mask=j < N)


@triton.jit
def softmax_in_chunks(x, out, N, BN: tl.constexpr):
    """Two reads of a row, BN elements at a time; BN divides N. Each thread keeps a peak and a sum of its own."""
    start = tl.program_id(0).to(tl.int64) * N
    j = tl.arange(0, BN)
    peak, weight = tl.full((BN,), float("-inf"), tl.float32), tl.zeros((BN,), tl.float32)
    for first in range(0, N, BN):
        row = tl.load(x + start + first + j).to(tl.float32)
        higher = tl.maximum(peak, row)
        weight = weight * tl.exp(peak - higher) + tl.exp(row - higher)
        peak = higher
    most = tl.max(peak, 0)
    share = 1 / tl.sum(weight * tl.exp(peak - most), 0)
    for first in range(0, N, BN):
        row = tl.load(x + start + first + j).to(tl.float32)
        tl.store(out + start + first + j, (tl.exp(row - most) * share).to(out.dtype.element_ty))


@triton.jit
def layer_norm(x, weight, bias, out, N, eps, BN: tl.constexpr):
    """A program a row of at most BN elements."""
    start = tl.program_id(0).to(tl.int64) * N
    j = tl.arange(0, BN)
    row = tl.load(x + start + j, mask=j < N, other=0).to(tl.float32)
    mean = tl.sum(row, 0) / N
    apart = tl.where(j < N, row - mean, 0.0)
    scale = tl.rsqrt(tl.sum(apart * apart, 0) / N + eps)
    w = tl.load(weight + j, mask=j < N, other=0).to(tl.float32)
    b = tl.load(bias + j, mask=j < N, other=0).to(tl.float32)
    tl.store(out + start + j, (apart * scale * w + b).to(out.dtype.element_ty), mask=j < N)
