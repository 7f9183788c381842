"""More of the largest than the axis has."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    k, n = vk.whole(9), vk.whole(3)
    value, _ = vk.topk(x[i, n], k)
    out[i, k] = value
