"""An annotation that cannot be evaluated."""

import vkernels as vk


@vk.kernel
def kernel(x: "Flaot[vk.Tensor]"):
    pass
