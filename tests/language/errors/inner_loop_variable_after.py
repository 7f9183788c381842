"""A variable that an inner loop counts with, used after the outer one."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    k = 0
    for _ in vk.range("N"):
        for k in range(3):
            out[i] = x[i, k]
    out[i] = x[i, k]
