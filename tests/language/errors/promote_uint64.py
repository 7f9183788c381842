"""No integer dtype holds the values of both."""

from jaxtyping import UInt64

import vkernels as vk


@vk.kernel
def kernel(x: UInt64[vk.Tensor, "M"], out: UInt64[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = x[i] + i
