"""A mistake in a helper function, with the call that led to it."""

from jaxtyping import Float

import vkernels as vk


@vk.function
def row(x, i):
    return x[i]


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = row(x, i)
