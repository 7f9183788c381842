"""An annotation of torch's tensors."""

import torch
from jaxtyping import Float

import vkernels as vk


@vk.kernel
def kernel(x: Float[torch.Tensor, "N"], out: Float[vk.Tensor, "N"]):
    i = vk.tile("N")
    out[i] = x[i]
