"""A mistake in a call that spans lines."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    i = vk.tile("M")
    out[i] = vk.where(
        x[i, 0] > 0,
        x[i, 0],
        "none",
    )
