"""A reshape to another number of positions."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M 6"], out: Float[vk.Tensor, "M 2 2"]):
    i = vk.tile("M")
    j = vk.whole(6)
    a = vk.whole(2)
    b = vk.whole(2)
    out[i, a, b] = vk.reshape(x[i, j], j, (a, b))
