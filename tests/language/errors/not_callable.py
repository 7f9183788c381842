"""A call of a number."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    three = 3
    y = three(4)
