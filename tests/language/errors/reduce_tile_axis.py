"""A reduction along an axis that is split over programs."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.tile("N")
    out[i] = vk.sum(x[i, j], axis=j)
