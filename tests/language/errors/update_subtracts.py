"""An update that has another atomic operation."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.kernel
def kernel(index: Int[vk.Tensor, "N"], x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "K"]):
    i = vk.tile("N")
    out[index[i]] -= x[i] * 2
