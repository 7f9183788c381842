"""An option that kernels do not have."""

import vkernels as vk


@vk.kernel(warps=8)
def kernel():
    pass
