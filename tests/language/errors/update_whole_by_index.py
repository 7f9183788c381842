"""The same along a whole axis, written out."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.kernel
def kernel(index: Int[vk.Tensor, "N"], x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "K"]):
    j = vk.whole("N")
    out[index[j]] = vk.maximum(out[index[j]], x[j])
