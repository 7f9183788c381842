"""A Python tuple indexed by a tile."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    y = (1, 2, 3)[x[i, 0]]
