"""An atomic over a tile axis into a tensor of rank 0."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, ""]):
    i = vk.tile("N")
    vk.atomic_add(out[()], x[i])
