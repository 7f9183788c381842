"""The result of an update that one program makes is used by all."""

from jaxtyping import Int

import vkernels as vk


@vk.kernel
def kernel(count: Int[vk.Tensor, "1"], x: Int[vk.Tensor, "N"]):
    i = vk.tile("N")
    x[i] = vk.atomic_add(count[0], 1)
