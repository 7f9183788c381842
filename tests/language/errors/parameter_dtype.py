"""A dtype that kernels do not have."""

from jaxtyping import Float8e4m3b11fnuz

import vkernels as vk


@vk.kernel
def kernel(x: Float8e4m3b11fnuz[vk.Tensor, "M"]):
    pass
