"""Programs read what others write."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    x[i] = x[i - 1] + x[i + 1]
