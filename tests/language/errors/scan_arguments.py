"""A function of a scan with one parameter."""

from jaxtyping import Float

import vkernels as vk


@vk.function
def alone(a):
    return a


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = vk.scan(alone, x[i, j], axis=j)
