"""A variable that a loop assigns first, used after it."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    for k in vk.range("N"):
        last = x[i, k]
    out[i] = last
