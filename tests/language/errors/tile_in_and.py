"""Masks combined with `and`."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    y = x[i, 0] > 0 and x[i, 1] > 0
