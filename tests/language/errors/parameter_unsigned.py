"""A dtype that kernels do not have."""

from jaxtyping import UInt

import vkernels as vk


@vk.kernel
def kernel(x: UInt[vk.Tensor, "M"]):
    pass
