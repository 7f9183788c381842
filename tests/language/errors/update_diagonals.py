"""An update where a sum of axes is the index."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "K"]):
    i, j = vk.tile("M"), vk.whole("N")
    out[i + j] += x[i, j]
