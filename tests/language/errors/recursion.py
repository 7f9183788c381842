"""A helper that calls itself."""

from jaxtyping import Float

import vkernels as vk


@vk.function
def endless(x):
    return endless(x)


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    endless(x)
