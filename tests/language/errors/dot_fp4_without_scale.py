"""Bytes of fp4, one of which has no scale."""

from jaxtyping import Float, UInt8

import vkernels as vk


@vk.kernel
def kernel(x: UInt8[vk.Tensor, "M K"], s: UInt8[vk.Tensor, "M G"], out: Float[vk.Tensor, "M M"]):
    i = vk.tile("M")
    j = vk.tile("M")
    k = vk.whole("K")
    out[i, j] = vk.dot(x[i, k], x[j, k], a_scale=s[i, k // 16])
