"""A parameter annotated as a string."""

import vkernels as vk


@vk.kernel
def kernel(x: str):
    pass
