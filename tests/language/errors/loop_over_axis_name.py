"""A loop's variable with the name of an axis."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    for j in vk.range("N"):
        pass
