"""A `while` with `else`."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    s = x[0, 0]
    while s > 0:
        s = s - 1
    else:
        pass
