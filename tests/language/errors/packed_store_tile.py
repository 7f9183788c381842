"""A store of 4-bit integers along a tile axis, so that two programs may share a byte."""

from jaxtyping import Float, Int4

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], w: Int4[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.tile("N")
    w[i, j] = x[i, j].to(vk.int8)
