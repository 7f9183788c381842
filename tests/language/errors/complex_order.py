"""Complex numbers compared by size."""

from jaxtyping import Complex64, Float

import vkernels as vk


@vk.kernel
def kernel(z: Complex64[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = vk.where(z[i] < 1.0, 0.0, 1.0)
