"""The shape of a scratchpad."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    row = vk.scratch(i, vk.float32)
    n = row.shape
