"""A number that the dtype cannot hold."""

from jaxtyping import Int8

import vkernels as vk


@vk.kernel
def kernel(x: Int8[vk.Tensor, "M"], out: Int8[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = x[i] + 300
