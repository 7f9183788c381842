"""C = A B, of row-major matrices: by pointers, and by tensor descriptors (TMA where the GPU has it)."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _tile_of(program, M, N, BM: tl.constexpr, BN: tl.constexpr, GROUP: tl.constexpr):
    """Programs that run together take a block of `GROUP` rows of tiles, so that they share what the L2 holds."""
    down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
    group = program // (GROUP * across)
    first = group * GROUP
    rows = tl.minimum(down - first, GROUP)
    inside = program % (GROUP * across)
    return first + inside % rows, inside // rows


@triton.jit
def matmul(
    a, b, c, M, N, K, stride_a, stride_b, stride_c,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, WHOLE: tl.constexpr,
    PRECISION: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """`WHOLE`: the tiles divide M, N and K. `SUM`: dtype of the sum. `PRECISION`: of f32 operands, ieee or tf32."""
    row, column = _tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    m, n, k = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN), tl.arange(0, BK)
    if not WHOLE:  # reads past the end wrap: those products are not stored
        m, n = m % M, n % N
    left = a + m[:, None] * stride_a + k[None, :]
    right = b + k[:, None] * stride_b + n[None, :]
    total = tl.zeros((BM, BN), SUM)
    for step in range(0, K, BK):
        if WHOLE:
            x, y = tl.load(left), tl.load(right)
        else:
            x = tl.load(left, mask=k[None, :] < K - step, other=0)
            y = tl.load(right, mask=k[:, None] < K - step, other=0)
        total = tl.dot(x, y, total, input_precision=PRECISION, out_dtype=SUM)
        left += BK
        right += BK * stride_b
    m, n = row * BM + tl.arange(0, BM), column * BN + tl.arange(0, BN)
    at = c + m[:, None] * stride_c + n[None, :]
    if WHOLE:
        tl.store(at, total.to(c.dtype.element_ty))
    else:
        tl.store(at, total.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def matmul_by_descriptors(
    a, b, c, M, N, K,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, SUM: tl.constexpr,
):  # fmt: skip
    """Dense matrices whose rows are multiples of 16 bytes; what is past an edge reads as 0 and is not stored."""
    row, column = _tile_of(tl.program_id(0), M, N, BM, BN, GROUP)
    left = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    right = tl.make_tensor_descriptor(b, shape=[K, N], strides=[N, 1], block_shape=[BK, BN])
    out = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    total = tl.zeros((BM, BN), SUM)
    for k in range(0, K, BK):
        total = tl.dot(left.load([row * BM, k]), right.load([k, column * BN]), total, out_dtype=SUM)
    out.store([row * BM, column * BN], total.to(c.dtype.element_ty))
