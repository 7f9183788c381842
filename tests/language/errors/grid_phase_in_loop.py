"""All programs wait in a loop."""

from jaxtyping import Float

import vkernels.language as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    for _ in vk.range(3):
        out[i] = x[i]
        vk.phase(grid=True)
