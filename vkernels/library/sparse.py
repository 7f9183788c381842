"""Sparse-DNN inference, general class: any weights, many layers a launch, features on chip between them; and dropping
columns."""

from __future__ import annotations

from jaxtyping import Float, Int

import vkernels as vk


@vk.kernel
def spdnn(
    y: Float[vk.Tensor, "N I"],
    column: Int[vk.Tensor, "L N K"],
    weight: Float[vk.Tensor, "L N K"],
    bias: vk.Scalar,
    out: Float[vk.Tensor, "N I"],
    peak: Float[vk.Tensor, "I"],
):
    i = vk.tile("I")
    n = vk.whole("N")
    features = vk.scratch((n, i), vk.float32)  # virtual scratchpad: 64 KiB or 64 MiB
    features[n, i] = y[n, i]
    for l in vk.range("L"):
        total = vk.zeros((n, i), vk.float32)
        for k in vk.range("K"):
            total += weight[l, n, k] * features[column[l, n, k], i]  # gather rows
        vk.phase()  # all have read before any is rewritten
        features[n, i] = vk.clamp(total + bias, 0, 32)
    last = features[n, i]
    out[n, i] = last
    peak[i] = vk.max(last, axis=n)


@vk.kernel
def take_columns(y: Float[vk.Tensor, "N P"], column: Int[vk.Tensor, "I"], out: Float[vk.Tensor, "N I"]):
    n = vk.tile("N")
    i = vk.whole("I")
    out[n, i] = y[n, column[i]]
