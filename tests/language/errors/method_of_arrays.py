"""A method that arrays have."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i].astype(vk.float32)
