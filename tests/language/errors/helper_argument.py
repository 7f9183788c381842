"""A helper called with an argument that it does not have."""

from jaxtyping import Float

import vkernels as vk


@vk.function
def row(x, i):
    return x[i, 0]


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = row(x, index=i)
