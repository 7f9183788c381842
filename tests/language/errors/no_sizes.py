"""Sizes where no tensor names one."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "3"]):
    i = vk.tile("M")
