"""Complex numbers stored as real ones."""

from jaxtyping import Complex64, Float

import vkernels as vk


@vk.kernel
def kernel(z: Complex64[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = z[i] * vk.conj(z[i])
