"""An axis whose extent is computed in a loop."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    for k in vk.range("N"):
        j = vk.whole(k + 1)
