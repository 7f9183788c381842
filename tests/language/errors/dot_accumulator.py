"""An accumulator of another dtype."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.tile("N")
    k = vk.whole("N")
    out[i, j] = vk.dot(x[i, k], x[k, j], acc=vk.zeros((i, j), vk.float64))
