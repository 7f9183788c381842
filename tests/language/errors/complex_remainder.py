"""A remainder of complex numbers."""

from jaxtyping import Complex64

import vkernels as vk


@vk.kernel
def kernel(z: Complex64[vk.Tensor, "N"]):
    i = vk.tile("N")
    z[i] = z[i] % 2
