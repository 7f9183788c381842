"""The mean of integers."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.kernel
def kernel(x: Int[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i] = vk.mean(x[i, j])
