"""A mask along an axis that the place lacks."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    vk.store(out[i], 1.0, where=x[i, j] > 0)
