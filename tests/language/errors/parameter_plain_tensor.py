"""A tensor without dtype and sizes."""

import vkernels as vk


@vk.kernel
def kernel(x: vk.Tensor):
    pass
