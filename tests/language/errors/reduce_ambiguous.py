"""A reduction that does not say along which of two axes."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "1"]):
    i = vk.whole("M")
    j = vk.whole("N")
    out[0] = vk.max(x[i, j])
