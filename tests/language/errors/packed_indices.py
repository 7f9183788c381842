"""Too few indices of a tensor of 4-bit integers."""

from jaxtyping import Int, Int4

import vkernels as vk


@vk.kernel
def kernel(w: Int4[vk.Tensor, "M N"], out: Int[vk.Tensor, "N"]):
    j = vk.tile("N")
    out[j] = w[j]
