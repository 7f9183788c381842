"""A list that grows in a loop."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    acc = []
    for k in range(3):
        acc.append(x[i] * k)
    out[i] = acc[0]
