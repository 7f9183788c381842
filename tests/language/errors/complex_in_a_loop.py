"""A real variable that becomes complex in a loop."""

from jaxtyping import Complex64

import vkernels as vk


@vk.kernel
def kernel(z: Complex64[vk.Tensor, "M N"], out: Complex64[vk.Tensor, "M"]):
    i = vk.tile("M")
    total = 0.0
    for k in vk.range("N"):
        total += z[i, k]
    out[i] = total
