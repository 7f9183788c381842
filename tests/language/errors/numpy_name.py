"""An operation by its name in NumPy."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = vk.cumsum(x[i])
