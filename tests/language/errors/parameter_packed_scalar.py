"""4-bit integers without a dimension."""

from jaxtyping import Int, Int4

import vkernels as vk


@vk.kernel
def kernel(w: Int4[vk.Tensor, ""], out: Int[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = w[()]
