"""A convolution by 3 × 3 without padding, as a matrix product whose left side is gathered (implicit GEMM).

Images are dense with channels last, B × H × W × C; weights are R × S × C × O.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def convolution(
    x, weight, out, B, H, W, C, O, Y, X,
    R: tl.constexpr, S: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """`out`: B × Y × X × O. BK divides C, and BN divides O."""
    pixels = B * Y * X
    down, across = tl.cdiv(pixels, BM), O // BN
    program = tl.program_id(0)
    group = program // (GROUP * across)
    rows = tl.minimum(down - group * GROUP, GROUP)
    inside = program % (GROUP * across)
    m = (group * GROUP + inside % rows) * BM + tl.arange(0, BM)
    n, k = inside // rows * BN + tl.arange(0, BN), tl.arange(0, BK)
    image, y, column = m // (Y * X), m // X % Y, m % X
    corner = ((image * H + y) * W + column) * C
    seen = m < pixels
    total = tl.zeros((BM, BN), tl.float32)
    chunks = C // BK
    for step in range(R * S * chunks):
        place, chunk = step // chunks, step % chunks
        r, s = place // S, place % S
        left = x + (corner + (r * W + s) * C + chunk * BK)[:, None] + k[None, :]
        right = weight + (place * C + chunk * BK + k)[:, None] * O + n[None, :]
        total = tl.dot(tl.load(left, mask=seen[:, None], other=0), tl.load(right), total)
    at = out + m.to(tl.int64)[:, None] * O + n[None, :]
    tl.store(at, total.to(out.dtype.element_ty), mask=seen[:, None])
