"""A constant index outside of a dimension of known size."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M 3"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = x[i, 3]
