"""A scratchpad with a number for a dimension."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    row = vk.scratch(64, vk.float32)
