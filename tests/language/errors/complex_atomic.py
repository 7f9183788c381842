"""What an atomic update of complex numbers found."""

from jaxtyping import Complex64

import vkernels as vk


@vk.kernel
def kernel(z: Complex64[vk.Tensor, "N"], out: Complex64[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = vk.atomic_add(z[i], 1j)
