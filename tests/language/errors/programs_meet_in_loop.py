"""Programs write, in later iterations, what others read."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    for k in vk.range("N"):
        x[i + k] += 1
