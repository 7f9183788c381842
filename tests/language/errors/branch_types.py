"""A variable whose type depends on the branch."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    if x[0, 0] > 0:
        y = x[i, 0]
    else:
        y = vk.zeros(i, vk.int32)
    out[i] = y
