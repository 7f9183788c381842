"""A function of a scan that changes the dtype."""

from jaxtyping import Float

import vkernels as vk


@vk.function
def longer(a, b):
    return (a + b).to(vk.float64)


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = vk.scan(longer, x[i, j], axis=j)
