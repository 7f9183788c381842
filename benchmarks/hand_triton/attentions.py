"""softmax(Q Kᵀ · scale) V for each head and its gradients, without the scores in memory (Dao et al. 2022 and 2023).

Tensors are dense, heads × positions × width. Exponentials are powers of two, so that the scale takes log2(e) in.
"""

from __future__ import annotations

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _keys(q, total, peak, weight, k, v, first, last, m, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
          MASKED: tl.constexpr):  # fmt: skip
    """Take keys `first` to `last` in. `MASKED`: a query sees no later key."""
    d = tl.arange(0, D)
    for start in range(first, last, BN):
        n = start + tl.arange(0, BN)
        score = tl.dot(q, tl.load(k + d[:, None] + n[None, :] * D))
        if MASKED:
            score = tl.where(n[None, :] <= m[:, None], score, float("-inf"))
        higher = tl.maximum(peak, tl.max(score, 1))
        p = tl.exp2(score - higher[:, None])
        shrink = tl.exp2(peak - higher)
        weight = weight * shrink + tl.sum(p, 1)
        total = total * shrink[:, None]
        total = tl.dot(p.to(v.dtype.element_ty), tl.load(v + n[:, None] * D + d[None, :]), total)
        peak = higher
    return total, peak, weight


@triton.jit
def attention(
    q, k, v, out, norms, scale, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """`norms`: log2 of each query's sum of powers, for the gradients. BM and BN divide N, and BN divides BM."""
    head = tl.program_id(1).to(tl.int64) * N * D
    start = tl.program_id(0) * BM
    m, d = start + tl.arange(0, BM), tl.arange(0, D)
    query = tl.load(q + head + m[:, None] * D + d[None, :])
    query = (query * (scale * LOG2_E)).to(q.dtype.element_ty)
    total = tl.zeros((BM, D), tl.float32)
    peak = tl.full((BM,), float("-inf"), tl.float32)
    weight = tl.zeros((BM,), tl.float32)
    if CAUSAL:
        total, peak, weight = _keys(query, total, peak, weight, k + head, v + head, 0, start, m, N, D, BM, BN, False)
        total, peak, weight = _keys(
            query, total, peak, weight, k + head, v + head, start, start + BM, m, N, D, BM, BN, True
        )
    else:
        total, peak, weight = _keys(query, total, peak, weight, k + head, v + head, 0, N, m, N, D, BM, BN, False)
    tl.store(norms + tl.program_id(1) * N + m, peak + tl.log2(weight))
    tl.store(out + head + m[:, None] * D + d[None, :], (total / weight[:, None]).to(out.dtype.element_ty))


@triton.jit
def output_products(out, gradient, delta, N, D: tl.constexpr, BM: tl.constexpr):
    """The sum over each row of the output times its gradient."""
    row = tl.program_id(0).to(tl.int64) * BM + tl.arange(0, BM)
    at = row[:, None] * D + tl.arange(0, D)[None, :]
    product = tl.load(out + at).to(tl.float32) * tl.load(gradient + at).to(tl.float32)
    tl.store(delta + row, tl.sum(product, 1))


@triton.jit
def key_gradients(
    q, k, v, gradient, norms, delta, dk, dv, scale, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    """Gradients of BN keys and values, by blocks of BM queries. BM and BN divide N, and BM divides BN."""
    head = tl.program_id(1).to(tl.int64) * N * D
    rows = tl.program_id(1) * N
    start = tl.program_id(0) * BN
    n, d = start + tl.arange(0, BN), tl.arange(0, D)
    block = n[:, None] * D + d[None, :]
    key, value = tl.load(k + head + block), tl.load(v + head + block)
    of_key, of_value = tl.zeros((BN, D), tl.float32), tl.zeros((BN, D), tl.float32)
    for first in range(start if CAUSAL else 0, N, BM):
        m = first + tl.arange(0, BM)
        query = tl.load(q + head + m[:, None] * D + d[None, :])
        coming = tl.load(gradient + head + m[:, None] * D + d[None, :])
        score = tl.dot(key, tl.trans(query)) * (scale * LOG2_E)
        p = tl.exp2(score - tl.load(norms + rows + m)[None, :])
        if CAUSAL:
            p = tl.where(n[:, None] <= m[None, :], p, 0.0)
        of_value = tl.dot(p.to(v.dtype.element_ty), coming, of_value)
        of_p = tl.dot(value, tl.trans(coming))
        of_score = p * (of_p - tl.load(delta + rows + m)[None, :])
        of_key = tl.dot(of_score.to(q.dtype.element_ty), query, of_key)
    tl.store(dv + head + block, of_value.to(dv.dtype.element_ty))
    tl.store(dk + head + block, (of_key * scale).to(dk.dtype.element_ty))


@triton.jit
def query_gradient(
    q, k, v, gradient, norms, delta, dq, scale, N, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
    CAUSAL: tl.constexpr,
):  # fmt: skip
    """The gradient of BM queries, by blocks of BN keys. BM and BN divide N, and BN divides BM."""
    head = tl.program_id(1).to(tl.int64) * N * D
    rows = tl.program_id(1) * N
    start = tl.program_id(0) * BM
    m, d = start + tl.arange(0, BM), tl.arange(0, D)
    block = m[:, None] * D + d[None, :]
    query, coming = tl.load(q + head + block), tl.load(gradient + head + block)
    norm, product = tl.load(norms + rows + m), tl.load(delta + rows + m)
    total = tl.zeros((BM, D), tl.float32)
    for first in range(0, start + BM if CAUSAL else N, BN):
        n = first + tl.arange(0, BN)
        key = tl.load(k + head + n[:, None] * D + d[None, :])
        value = tl.load(v + head + n[:, None] * D + d[None, :])
        p = tl.exp2(tl.dot(query, tl.trans(key)) * (scale * LOG2_E) - norm[:, None])
        if CAUSAL:
            p = tl.where(n[None, :] <= m[:, None], p, 0.0)
        of_score = p * (tl.dot(coming, tl.trans(value)) - product[:, None])
        total = tl.dot(of_score.to(q.dtype.element_ty), key, total)
    tl.store(dq + head + block, (total * scale).to(dq.dtype.element_ty))
