"""A position that a dimension of 4-bit integers does not have, though its bytes do."""

from jaxtyping import Int, Int4

import vkernels as vk


@vk.kernel
def kernel(w: Int4[vk.Tensor, "M 7"], out: Int[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = w[i, 7]
