"""A scale with an axis that its operand lacks."""

from jaxtyping import Float, UInt8

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M K"], s: UInt8[vk.Tensor, "M G"], out: Float[vk.Tensor, "M M"]):
    i = vk.tile("M")
    j = vk.tile("M")
    k = vk.whole("K")
    out[i, j] = vk.dot(x[i, k], x[j, k], a_scale=s[i, k // 32], b_scale=s[i, k // 32])
