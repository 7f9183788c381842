"""Subtracting masks."""

from jaxtyping import Bool

import vkernels as vk


@vk.kernel
def kernel(x: Bool[vk.Tensor, "M"], out: Bool[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = x[i] - x[i]
