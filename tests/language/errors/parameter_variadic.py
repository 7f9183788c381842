"""A tensor with any number of dimensions."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "..."]):
    pass
