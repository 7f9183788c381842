"""A reshape into a tile axis."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M 6"], out: Float[vk.Tensor, "M 6"]):
    i = vk.tile("M")
    j = vk.whole(6)
    a = vk.tile(6)
    out[i, a] = vk.reshape(x[i, j], j, a)
