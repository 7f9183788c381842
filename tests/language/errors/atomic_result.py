"""The result of an atomic."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    old = vk.atomic_add(out[i], x[i])
    out[i] = old
