"""Integers with scales."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.kernel
def kernel(x: Int[vk.Tensor, "M K"], s: Float[vk.Tensor, "M G"], out: Float[vk.Tensor, "M M"]):
    i = vk.tile("M")
    j = vk.tile("M")
    k = vk.whole("K")
    out[i, j] = vk.dot(x[i, k], x[j, k], a_scale=s[i, k // 32])
