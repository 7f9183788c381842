"""A dtype that kernels do not have."""

from jaxtyping import Complex

import vkernels as vk


@vk.kernel
def kernel(x: Complex[vk.Tensor, "M"]):
    pass
