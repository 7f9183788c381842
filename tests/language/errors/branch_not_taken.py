"""A name that only a branch assigns which the call's constants do not take."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M"], out: Float[vk.Tensor, "M"], scaled: vk.Constant = False):
    i = vk.tile("M")
    if scaled:
        scale = 2.0
    out[i] = x[i] * scale
