"""The largest of bool."""

from jaxtyping import Bool

import vkernels as vk


@vk.kernel
def kernel(x: Bool[vk.Tensor, "M N"], out: Bool[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    out[i] = vk.max(x[i, j])
