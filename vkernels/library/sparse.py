"""Sparse-DNN inference, general class: any weights, many layers a launch, features on chip between them; and dropping
columns."""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Float, Int

import vkernels as vk
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Plan

from .gpu_plans import spdnn_on_gpu, take_columns_on_gpu


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


@spdnn.plan
def plan_spdnn(sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan:
    """As many images a program as keep both copies of the features in a core's cache, at most four registers wide."""
    if limits.warp > 1:
        return spdnn_on_gpu(sizes, limits)
    lanes = limits.register_bytes // 4
    fit = limits.shared * 3 // 4 // (2 * 4 * max(1, sizes["N"])) // lanes
    return Plan(tiles={"i": lanes * max(1, min(4, fit))}, chunks={"n": 1}, copies=("features",), lanes="i")


@vk.kernel
def take_columns(y: Float[vk.Tensor, "N P"], column: Int[vk.Tensor, "I"], out: Float[vk.Tensor, "N I"]):
    n = vk.tile("N")
    i = vk.whole("I")
    out[n, i] = y[n, column[i]]


@take_columns.plan
def plan_take_columns(sizes: Mapping[str, int], dtypes: Mapping[str, str], limits: Limits) -> Plan:
    """A row at a time: it stays in the first cache while its elements are gathered."""
    if limits.warp > 1:
        return take_columns_on_gpu(sizes, limits)
    return Plan(tiles={"n": 1}, chunks={"i": limits.register_bytes // 2}, lanes="i")
