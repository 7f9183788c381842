"""A kernel that calls a kernel."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def other(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    pass


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    other(x, out)
