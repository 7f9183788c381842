"""A loop that goes on while any position of a tile axis needs it."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    bound = vk.size("M")
    while vk.any(x[i] > bound):
        bound = bound * 2
    out[i] = bound
