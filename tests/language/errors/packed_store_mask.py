"""A store of 4-bit integers that leaves some out."""

from jaxtyping import Int8, UInt4

import vkernels as vk


@vk.kernel
def kernel(x: Int8[vk.Tensor, "M N"], w: UInt4[vk.Tensor, "M N"]):
    i, j = vk.tile("M"), vk.whole("N")
    vk.store(w[i, j], x[i, j], where=x[i, j] > 0)
