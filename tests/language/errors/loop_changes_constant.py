"""A string that changes in a loop."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    mode = "first"
    for k in vk.range("N"):
        mode = "later"
