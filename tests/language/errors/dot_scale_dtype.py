"""A scale of a dtype that scales do not have."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M K"], s: Int[vk.Tensor, "M G"], out: Float[vk.Tensor, "M M"]):
    i = vk.tile("M")
    j = vk.tile("M")
    k = vk.whole("K")
    out[i, j] = vk.dot(x[i, k], x[j, k], a_scale=s[i, k // 32], b_scale=s[j, k // 32])
