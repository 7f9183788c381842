"""A store of floats as 4-bit integers."""

from jaxtyping import Float, Int4

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], w: Int4[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    w[i, j] = x[i, j]
