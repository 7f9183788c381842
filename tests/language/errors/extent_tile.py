"""An axis as long as each element of a tile says."""

from jaxtyping import Int

import vkernels as vk


@vk.kernel
def kernel(n: Int[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole(n[i])
