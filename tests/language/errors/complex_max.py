"""The largest of complex numbers."""

from jaxtyping import Complex64

import vkernels as vk


@vk.kernel
def kernel(z: Complex64[vk.Tensor, "M N"], out: Complex64[vk.Tensor, "M"]):
    i, j = vk.tile("M"), vk.whole("N")
    out[i] = vk.max(z[i, j], axis=j)
