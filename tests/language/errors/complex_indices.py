"""Too many indices of a complex tensor."""

from jaxtyping import Complex64

import vkernels as vk


@vk.kernel
def kernel(z: Complex64[vk.Tensor, "N"]):
    i = vk.tile("N")
    z[i, 0] = 1.0
