"""A number that an unsigned integer cannot be."""

from jaxtyping import UInt8

import vkernels as vk


@vk.kernel
def kernel(x: UInt8[vk.Tensor, "M"], out: UInt8[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = vk.maximum(x[i], -1)
