"""A negative power of integers."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.kernel
def kernel(x: Int[vk.Tensor, "M"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = x[i] ** -1
