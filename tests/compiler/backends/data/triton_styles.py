"""Plain Triton kernels in three styles: pointer arithmetic, block pointers, tensor descriptors."""

import triton
import triton.language as tl


@triton.jit
def add(x, y, out, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    tl.store(out + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


@triton.jit
def multiply(a, b, out, M, N, K, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    """out = a @ b through block pointers; rows of a and b lie one after another."""
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    left = tl.make_block_ptr(a, (M, K), (K, 1), (row, 0), (ROWS, DEPTH), (1, 0))
    right = tl.make_block_ptr(b, (K, N), (N, 1), (0, column), (DEPTH, COLUMNS), (1, 0))
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for _ in range(0, K, DEPTH):
        one = tl.load(left, boundary_check=(0, 1), padding_option="zero")
        other = tl.load(right, boundary_check=(0, 1), padding_option="zero")
        total = tl.dot(one, other, total)
        left, right = tl.advance(left, (0, DEPTH)), tl.advance(right, (DEPTH, 0))
    to = tl.make_block_ptr(out, (M, N), (N, 1), (row, column), (ROWS, COLUMNS), (1, 0))
    tl.store(to, total.to(tl.float16), boundary_check=(0, 1))


CONFIGURATIONS = [
    triton.Config({"ROWS": 64, "COLUMNS": 64, "DEPTH": 32}, num_warps=4, num_stages=2),
    triton.Config({"ROWS": 128, "COLUMNS": 256, "DEPTH": 64}, num_warps=8, num_stages=3),
]


@triton.autotune(CONFIGURATIONS, key=["M", "N", "K"])
@triton.jit
def multiply_tuned(a, b, out, M, N, K, ROWS: tl.constexpr, COLUMNS: tl.constexpr, DEPTH: tl.constexpr):
    """out = a @ b through descriptors that the kernel makes."""
    row, column = tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS
    left = tl.make_tensor_descriptor(a, [M, K], [K, 1], [ROWS, DEPTH])
    right = tl.make_tensor_descriptor(b, [K, N], [N, 1], [DEPTH, COLUMNS])
    to = tl.make_tensor_descriptor(out, [M, N], [N, 1], [ROWS, COLUMNS])
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for at in range(0, K, DEPTH):
        total = tl.dot(left.load([row, at]), right.load([at, column]), total)
    to.store([row, column], total.to(tl.float16))


@triton.jit
def halve(x, out, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Descriptors that the caller makes."""
    at = [tl.program_id(0) * ROWS, tl.program_id(1) * COLUMNS]
    out.store(at, (x.load(at) * 0.5).to(tl.float16))


@triton.heuristics({"BLOCK": lambda given: 2 * given["HALF"]})
@triton.jit
def fill(out, value, HALF: tl.constexpr, BLOCK: tl.constexpr):
    tl.store(out + tl.arange(0, BLOCK), value)


@triton.jit
def wrong(x, BLOCK: tl.constexpr):
    tl.store(x + tl.arange(0, BLOCK), nothing)


CONSTANT = 3
