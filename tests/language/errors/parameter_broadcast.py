"""A tensor with a size that broadcasts."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "#M"]):
    pass
