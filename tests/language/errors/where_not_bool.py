"""A condition that is not bool."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = vk.where(x[i, 0], 1.0, 0.0)
