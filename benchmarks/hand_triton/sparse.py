"""Products with sparse matrices: rows in CSR times a dense matrix, and layers of a sparse neural network."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def csr_times_dense(starts, columns, values, dense, out, C, BE: tl.constexpr, BC: tl.constexpr):
    """A program a row and BC columns of `dense`; BE entries of the row at a time. BC divides C."""
    row = tl.program_id(0)
    c = tl.program_id(1) * BC + tl.arange(0, BC)
    first, last = tl.load(starts + row), tl.load(starts + row + 1)
    total = tl.zeros((BC,), tl.float32)
    for entry in range(first, last, BE):
        e = entry + tl.arange(0, BE)
        inside = e < last
        column = tl.load(columns + e, mask=inside, other=0)
        value = tl.load(values + e, mask=inside, other=0).to(tl.float32)
        taken = tl.load(dense + column.to(tl.int64)[:, None] * C + c[None, :], mask=inside[:, None], other=0)
        total += tl.sum(value[:, None] * taken.to(tl.float32), 0)
    tl.store(out + row.to(tl.int64) * C + c, total.to(out.dtype.element_ty))


@triton.jit
def sparse_layers(
    first, other, column, weight, bias, L, N, I,
    K: tl.constexpr, BN: tl.constexpr, BI: tl.constexpr,
):  # fmt: skip
    """min(32, max(0, W y + bias)) for L layers: a program BI images, whose values go to and fro between two buffers.

    `first`, `other`: N × I; the result is in `first` where L is even. `column`, `weight`: L × N × K. BN divides N, and
    BI divides I. Barriers keep a layer's reads behind the writes of the layer before.
    """
    i = tl.program_id(0) * BI + tl.arange(0, BI)
    for layer in range(L):
        source, target = other, first
        if layer % 2 == 0:
            source, target = first, other
        for start in range(0, N, BN):
            n = start + tl.arange(0, BN)
            total = tl.zeros((BN, BI), tl.float32)
            at = (layer * N + n) * K
            for k in range(K):
                taken = tl.load(column + at + k)
                w = tl.load(weight + at + k).to(tl.float32)
                total += w[:, None] * tl.load(source + taken.to(tl.int64)[:, None] * I + i[None, :]).to(tl.float32)
            total = tl.minimum(tl.maximum(total + bias, 0.0), 32.0).to(first.dtype.element_ty)
            tl.store(target + n.to(tl.int64)[:, None] * I + i[None, :], total)
        tl.debug_barrier()
