"""An update of scratchpad at an index tile."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.kernel
def kernel(index: Int[vk.Tensor, "M N"], x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M K"]):
    i, j, k = vk.tile("M"), vk.whole("N"), vk.whole("K")
    sums = vk.scratch((i, k), vk.float32)
    sums[i, k] = vk.zeros((i, k), vk.float32)
    sums[i, index[i, j]] += x[i, j]
    out[i, k] = sums[i, k]
