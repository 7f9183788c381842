"""A variable that changes its dtype in a loop."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.kernel
def kernel(n: Int[vk.Tensor, "M"], x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    total = n[i]
    for k in vk.range("N"):
        total = total + x[i, k]
    out[i] = total
