"""Floats stored into integers."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M"], out: Int[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = x[i]
