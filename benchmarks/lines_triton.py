"""The five kernels of lines_vkernels.py in Triton: any sizes, any strides, f16 and bf16 computed in f32.

Written as a Triton author would, and short: parameters side by side, no autotuning, no order of programs for the cache.
"""

import triton
import triton.language as tl


@triton.jit
def add_kernel(a_ptr, b_ptr, out_ptr, n, a_n, b_n, out_n, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    a = tl.load(a_ptr + at * a_n, mask=inside)
    b = tl.load(b_ptr + at * b_n, mask=inside)
    tl.store(out_ptr + at * out_n, a + b, mask=inside)


def add(a, b, out):
    n = a.numel()
    add_kernel[(triton.cdiv(n, 1024),)](a, b, out, n, *a.stride(), *b.stride(), *out.stride(), BLOCK=1024)


@triton.jit
def softmax_kernel(x_ptr, out_ptr, N, x_m, x_n, out_m, out_n, BLOCK: tl.constexpr):
    x_ptr += tl.program_id(0).to(tl.int64) * x_m
    out_ptr += tl.program_id(0).to(tl.int64) * out_m
    largest = -3.4e38
    total = 0.0
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at * x_n, mask=at < N, other=float("-inf")).to(tl.float32)
        larger = tl.maximum(largest, tl.max(x, axis=0))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(x - larger), axis=0)
        largest = larger
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at * x_n, mask=at < N, other=float("-inf")).to(tl.float32)
        tl.store(out_ptr + at * out_n, tl.exp(x - largest) / total, mask=at < N)


def softmax(x, out):
    M, N = x.shape
    BLOCK = min(4096, triton.next_power_of_2(N))
    softmax_kernel[(M,)](x, out, N, *x.stride(), *out.stride(), BLOCK=BLOCK)


@triton.jit
def layer_norm_kernel(
    x_ptr, weight_ptr, bias_ptr, out_ptr, N, eps, x_m, x_n, weight_n, bias_n, out_m, out_n, BLOCK: tl.constexpr
):
    x_ptr += tl.program_id(0).to(tl.int64) * x_m
    out_ptr += tl.program_id(0).to(tl.int64) * out_m
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + at * x_n, mask=at < N, other=0.0).to(tl.float32)
    mean = tl.sum(total, axis=0) / N
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at * x_n, mask=at < N, other=0.0).to(tl.float32)
        centred = tl.where(at < N, x - mean, 0.0)
        squares += centred * centred
    factor = tl.rsqrt(tl.sum(squares, axis=0) / N + eps)
    for start in range(0, N, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + at * x_n, mask=at < N, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + at * weight_n, mask=at < N, other=0.0).to(tl.float32)
        bias = tl.load(bias_ptr + at * bias_n, mask=at < N, other=0.0).to(tl.float32)
        tl.store(out_ptr + at * out_n, (x - mean) * factor * weight + bias, mask=at < N)


def layer_norm(x, weight, bias, eps, out):
    M, N = x.shape
    strides = (*x.stride(), *weight.stride(), *bias.stride(), *out.stride())
    BLOCK = min(4096, triton.next_power_of_2(N))
    layer_norm_kernel[(M,)](x, weight, bias, out, N, eps, *strides, BLOCK=BLOCK)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, bias_ptr, out_ptr, M, N, K, a_m, a_k, b_k, b_n, bias_n, out_m, out_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    column = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    depth = tl.arange(0, BLOCK_K)
    a_ptrs = a_ptr + row[:, None] * a_m + depth[None, :] * a_k
    b_ptrs = b_ptr + depth[:, None] * b_k + column[None, :] * b_n
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, K, BLOCK_K):
        left = K - start
        a = tl.load(a_ptrs, mask=(row[:, None] < M) & (depth[None, :] < left), other=0.0)
        b = tl.load(b_ptrs, mask=(depth[:, None] < left) & (column[None, :] < N), other=0.0)
        total = tl.dot(a, b, total, input_precision="ieee")
        a_ptrs += BLOCK_K * a_k
        b_ptrs += BLOCK_K * b_k
    bias = tl.load(bias_ptr + column * bias_n, mask=column < N, other=0.0)
    out = tl.maximum(total + bias[None, :], 0.0)
    out_ptrs = out_ptr + row[:, None] * out_m + column[None, :] * out_n
    tl.store(out_ptrs, out, mask=(row[:, None] < M) & (column[None, :] < N))


def matmul(a, b, bias, out):
    (M, K), N = a.shape, b.shape[1]
    strides = (*a.stride(), *b.stride(), *bias.stride(), *out.stride())
    grid = (triton.cdiv(M, 128), triton.cdiv(N, 128))
    matmul_kernel[grid](a, b, bias, out, M, N, K, *strides, BLOCK_M=128, BLOCK_N=128, BLOCK_K=32, num_warps=8)


@triton.jit
def attention_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, scale, H, M, N, D, E,
    q_b, q_h, q_m, q_d, k_b, k_h, k_n, k_d, v_b, v_h, v_n, v_e, out_b, out_h, out_m, out_e,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_D: tl.constexpr, BLOCK_E: tl.constexpr,
):  # fmt: skip
    batch = (tl.program_id(1) // H).to(tl.int64)
    head = (tl.program_id(1) % H).to(tl.int64)
    q_ptr += batch * q_b + head * q_h
    k_ptr += batch * k_b + head * k_h
    v_ptr += batch * v_b + head * v_h
    out_ptr += batch * out_b + head * out_h
    i = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    d = tl.arange(0, BLOCK_D)
    e = tl.arange(0, BLOCK_E)
    q_mask = (i[:, None] < M) & (d[None, :] < D)
    q = tl.load(q_ptr + i[:, None] * q_m + d[None, :] * q_d, mask=q_mask, other=0.0)
    largest = tl.full((BLOCK_M,), -3.4e38, tl.float32)
    total = tl.zeros((BLOCK_M,), tl.float32)
    out = tl.zeros((BLOCK_M, BLOCK_E), tl.float32)
    for start in range(0, tl.minimum(N, (tl.program_id(0) + 1) * BLOCK_M), BLOCK_N):
        j = start + tl.arange(0, BLOCK_N)
        k_mask = (d[:, None] < D) & (j[None, :] < N)
        k = tl.load(k_ptr + d[:, None] * k_d + j[None, :] * k_n, mask=k_mask, other=0.0)
        score = tl.dot(q, k, input_precision="ieee") * scale
        score = tl.where((j[None, :] <= i[:, None]) & (j[None, :] < N), score, float("-inf"))
        larger = tl.maximum(largest, tl.max(score, axis=1))
        p = tl.exp(score - larger[:, None])
        shrink = tl.exp(largest - larger)
        total = total * shrink + tl.sum(p, axis=1)
        v_mask = (j[:, None] < N) & (e[None, :] < E)
        v = tl.load(v_ptr + j[:, None] * v_n + e[None, :] * v_e, mask=v_mask, other=0.0)
        out = tl.dot(p.to(v.dtype), v, out * shrink[:, None], input_precision="ieee")
        largest = larger
    out_mask = (i[:, None] < M) & (e[None, :] < E)
    tl.store(out_ptr + i[:, None] * out_m + e[None, :] * out_e, out / total[:, None], mask=out_mask)


def attention(q, k, v, scale, out):
    (B, H, M, D), (N, E) = q.shape, v.shape[2:]
    strides = (*q.stride(), *k.stride(), *v.stride(), *out.stride())
    BLOCK_D, BLOCK_E = (max(16, triton.next_power_of_2(size)) for size in (D, E))
    blocks = {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_D": BLOCK_D, "BLOCK_E": BLOCK_E}
    attention_kernel[(triton.cdiv(M, 64), B * H)](q, k, v, out, scale, H, M, N, D, E, *strides, **blocks)
