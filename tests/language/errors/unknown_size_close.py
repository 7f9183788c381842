"""A size's name in the wrong case."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "rows columns"]):
    i = vk.tile("Rows")
