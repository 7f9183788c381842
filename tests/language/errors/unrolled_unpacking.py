"""An unrolled loop with too few values."""

from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[vk.Tensor, "M N"], out: Float[vk.Tensor, "M"]):
    for a, b in ((1, 2), (3,)):
        pass
