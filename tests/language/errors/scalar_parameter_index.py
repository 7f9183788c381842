"""A float scalar as an index."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M"], s: float):
    y = x[s]
