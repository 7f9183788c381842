"""An atomic update of 4-bit integers."""

from jaxtyping import UInt4

import vkernels as vk


@vk.kernel
def kernel(w: UInt4[vk.Tensor, "N"]):
    i = vk.tile("N")
    vk.atomic_add(w[i], 1)
