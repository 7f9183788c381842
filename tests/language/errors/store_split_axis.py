"""A value with a tile axis that the place lacks."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[0] = x[i]
