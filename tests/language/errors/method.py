"""A method as a kernel."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(self, x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i]
