"""Sparse-DNN inference: any weights, many layers a launch, features on chip between them; the same where outputs come
in blocks that gather the same inputs; and dropping columns."""

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


@vk.kernel
def sparse_layers(
    y: Float[vk.Tensor, "N I"],
    column: Int[vk.Tensor, "L N K"],
    weight: Float[vk.Tensor, "L N K"],
    bias: Float[vk.Tensor, "L N"],
    cap: vk.Scalar,
    out: Float[vk.Tensor, "N I"],
    peak: Float[vk.Tensor, "I"],
):
    i = vk.tile("I")
    n = vk.whole("N")
    features = vk.scratch((n, i), out.dtype)  # may be of 16 bits; sums are not
    features[n, i] = y[n, i]
    for l in vk.range("L"):
        total = vk.zeros((n, i), vk.float32)
        for k in vk.range("K"):
            total += weight[l, n, k] * features[column[l, n, k], i]
        vk.phase()
        features[n, i] = vk.clamp(total + bias[l, n], 0, cap)
    last = features[n, i]
    out[n, i] = last
    peak[i] = vk.max(last, axis=n)


@vk.kernel
def equal_weight_layers(
    y: Float[vk.Tensor, "N I"],
    column: Int[vk.Tensor, "L N K"],
    weight: Float[vk.Tensor, "L N"],
    bias: Float[vk.Tensor, "L N"],
    cap: vk.Scalar,
    out: Float[vk.Tensor, "N I"],
    peak: Float[vk.Tensor, "I"],
):
    i = vk.tile("I")
    n = vk.whole("N")
    features = vk.scratch((n, i), out.dtype)  # may be of 16 bits; sums are not
    features[n, i] = y[n, i]
    for l in vk.range("L"):
        total = vk.zeros((n, i), vk.float32)
        for k in vk.range("K"):
            total += features[column[l, n, k], i]  # one weight for all of them: it can wait
        vk.phase()
        features[n, i] = vk.clamp(weight[l, n] * total + bias[l, n], 0, cap)
    last = features[n, i]
    out[n, i] = last
    peak[i] = vk.max(last, axis=n)


@vk.kernel
def sparse_layer(
    y: Float[vk.Tensor, "M I"],
    column: Int[vk.Tensor, "N K"],
    weight: Float[vk.Tensor, "N K"],
    bias: Float[vk.Tensor, "N"],
    cap: vk.Scalar,
    out: Float[vk.Tensor, "N I"],
    peak: Float[vk.Tensor, "I"],
):
    i = vk.tile("I")
    n = vk.whole("N")
    total = vk.zeros((n, i), vk.float32)
    for k in vk.range("K"):
        total += weight[n, k] * y[column[n, k], i]
    last = vk.clamp(total + bias[n], 0, cap)
    out[n, i] = last
    peak[i] = vk.max(last, axis=n)


@vk.kernel
def block_layers(
    y: Float[vk.Tensor, "G P I"],
    column: Int[vk.Tensor, "L G Q"],
    weight: Float[vk.Tensor, "L G P Q"],
    bias: Float[vk.Tensor, "L G P"],
    cap: vk.Scalar,
    out: Float[vk.Tensor, "G P I"],
    peak: Float[vk.Tensor, "I"],
):
    i = vk.tile("I")
    g = vk.whole("G")
    p = vk.whole("P")
    features = vk.scratch((g, p, i), out.dtype)  # may be of 16 bits; sums are not
    features[g, p, i] = y[g, p, i]
    for l in vk.range("L"):
        total = vk.zeros((g, p, i), vk.float32)
        for q in vk.range("Q"):  # P outputs share what is gathered
            source = column[l, g, q]
            total += weight[l, g, p, q] * features[source // vk.size("P"), source % vk.size("P"), i]
        vk.phase()
        features[g, p, i] = vk.clamp(total + bias[l, g, p], 0, cap)
    last = features[g, p, i]
    out[g, p, i] = last
    peak[i] = vk.max(vk.max(last, axis=p), axis=g)


@vk.kernel
def block_layer(
    y: Float[vk.Tensor, "M I"],
    column: Int[vk.Tensor, "G Q"],
    weight: Float[vk.Tensor, "G P Q"],
    bias: Float[vk.Tensor, "G P"],
    cap: vk.Scalar,
    out: Float[vk.Tensor, "G P I"],
):
    i = vk.tile("I")
    g = vk.tile("G")
    p = vk.tile("P")
    total = vk.zeros((g, p, i), vk.float32)
    for q in vk.range("Q"):
        total += weight[g, p, q] * y[column[g, q], i]
    out[g, p, i] = vk.clamp(total + bias[g, p], 0, cap)


@vk.kernel
def distance_to_state(y: Float[vk.Tensor, "N I"], state: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "I"]):
    i = vk.tile("I")
    n = vk.whole("N")
    out[i] = vk.max(vk.abs(y[n, i] - state[n]), axis=n)
