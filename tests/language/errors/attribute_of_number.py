"""A method that Python's numbers do not have."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    half = 0.5
    out[i] = half.to(vk.float32)
