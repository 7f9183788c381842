"""A function of a scan that gives more values than elements have."""

from jaxtyping import Float

import vkernels as vk


@vk.function
def both(a, b):
    return a + b, a * b


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M N"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i, j] = vk.scan(both, x[i, j], axis=j)
