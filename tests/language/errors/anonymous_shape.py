"""The size of a dimension without a name."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "_ N"]):
    n = x.shape[0]
