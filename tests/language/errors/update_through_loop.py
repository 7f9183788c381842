"""What is stored was loaded at the same places, and came through a loop."""

from jaxtyping import Float, Int

import vkernels as vk


@vk.kernel
def kernel(index: Int[vk.Tensor, "N"], x: Float[vk.Tensor, "L N"], out: Float[vk.Tensor, "K"]):
    j = vk.whole("N")
    total = out[index[j]]
    for k in vk.range("L"):
        total += x[k, j]
    out[index[j]] = total
