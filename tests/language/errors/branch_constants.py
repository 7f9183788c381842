"""A string that depends on a branch that runs."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    mode = "a"
    if x[0, 0] > 0:
        mode = "b"
