"""A plain Triton kernel with a helper that is inlined."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def rows_of(base, rows, columns, stride):
    return tl.load(base + rows[:, None] * stride + columns[None, :])


@triton.jit
def matmul(a, b, c, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    total = tl.zeros((BM, BN), tl.float32)
    for k in range(0, K, BK):
        ks = k + tl.arange(0, BK)
        total = tl.dot(rows_of(a, m, ks, K), rows_of(b, ks, n, N), total)
    tl.store(c + m[:, None] * N + n[None, :], total.to(tl.float16))
