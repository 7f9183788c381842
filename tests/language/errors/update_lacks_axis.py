"""An update that every program along an axis would make."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], y: Float[vk.Tensor, "M"], out: Float[vk.Tensor, "M"]):
    i, j = vk.tile("M"), vk.tile("N")
    x[i, j] = x[i, j] * 2
    out[i] += y[i]
