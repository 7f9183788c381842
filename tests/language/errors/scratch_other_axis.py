"""A scratchpad whose tile axis is indexed by something else."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    j = vk.whole("N")
    row = vk.scratch((j, i), vk.float32)
    row[j, i] = x[i, j]
    out[i] = row[0, i + 1]
