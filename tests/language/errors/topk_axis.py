"""The largest along an axis that the tile has."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    value, _ = vk.topk(x[i, j], j)
    out[i, j] = value
