"""Zeros whose axes are not a tuple."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.tile("N")
    out[i, j] = x[i, j] + vk.zeros(i, j)
