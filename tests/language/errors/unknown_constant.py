"""A number that other libraries have under a name."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = vk.where(x[i] > 0, x[i], -vk.inf)
