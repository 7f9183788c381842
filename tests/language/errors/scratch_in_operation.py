"""A scratchpad given to an operation."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    row = vk.scratch(i, vk.float32)
    out[i] = vk.exp(row)
