"""Integers stored into bool."""

from jaxtyping import Bool, Int

import vkernels as vk


@vk.kernel
def kernel(x: Int[vk.Tensor, "M"], out: Bool[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = x[i]
