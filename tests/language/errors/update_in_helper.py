"""An update in a helper function."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.function
def helper(total, place, value):
    total[place] += value


@vk.kernel
def kernel(index: Int[vk.Tensor, "N"], x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "K"]):
    i = vk.tile("N")
    helper(out, index[i], x[i])
