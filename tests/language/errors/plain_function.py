"""A function without `@vk.function`."""

from jaxtyping import Float

import vkernels as vk


def double(x):
    return x + x


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = double(x[i, 0])
