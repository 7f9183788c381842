"""Five kernels, as they are written here; beside lines_triton.py. docs/coming-from-triton.md shows both."""

from __future__ import annotations

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def add(a: Float[vk.Tensor, "N"], b: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = a[i] + b[i]


@vk.kernel
def softmax(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    e = vk.exp(row - vk.max(row, axis=j))
    out[i, j] = e / vk.sum(e, axis=j)


@vk.kernel
def layer_norm(
    x: Float[vk.Tensor, "M N"],
    weight: Float[vk.Tensor, "N"],
    bias: Float[vk.Tensor, "N"],
    eps: vk.Scalar,
    out: Float[vk.Tensor, "M N"],
):
    i = vk.tile("M")
    j = vk.whole("N")
    row = x[i, j]
    centred = row - vk.mean(row, axis=j)
    variance = vk.mean(centred * centred, axis=j)
    out[i, j] = centred * vk.rsqrt(variance + eps) * weight[j] + bias[j]


@vk.kernel
def matmul(
    a: Float[vk.Tensor, "M K"], b: Float[vk.Tensor, "K N"], bias: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "M N"]
):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("K")
    out[i, j] = vk.relu(vk.dot(a[i, k], b[k, j]) + bias[j])


@vk.kernel
def attention(
    q: Float[vk.Tensor, "B H M D"],
    k: Float[vk.Tensor, "B H N D"],
    v: Float[vk.Tensor, "B H N E"],
    scale: vk.Scalar,
    out: Float[vk.Tensor, "B H M E"],
):
    b = vk.tile("B")
    h = vk.tile("H")
    i = vk.tile("M")
    j = vk.whole("N")
    d = vk.whole("D")
    e = vk.whole("E")
    score = vk.dot(q[b, h, i, d], k[b, h, j, d]) * scale
    score = vk.where(j <= i, score, float("-inf"))
    p = vk.exp(score - vk.max(score, axis=j))
    out[b, h, i, e] = vk.dot(p.to(v.dtype), v[b, h, j, e]) / vk.sum(p, axis=j)
