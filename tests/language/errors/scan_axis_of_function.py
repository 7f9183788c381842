"""A function of a scan that uses positions."""

from jaxtyping import Float

import vkernels as vk


@vk.function
def shifted(a, b):
    k = vk.whole("N")
    return a + b * k


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = vk.scan(shifted, x[i, j], axis=j)
