"""The library's functions as torch's own operations: with gradients, under `torch.compile` and in CUDA graphs.

`import vkernels.torch` registers them as `torch.ops.vkernels`; `import vkernels` alone does not import torch.
"""

from .activations import activate
from .convolution import conv2d
from .elements import adamw, dropout, rotary_embedding
from .finite_elements import apply_mass, apply_stiffness, apply_stiffness_at_nodes
from .losses import cross_entropy
from .norms import group_norm, layer_norm, rms_norm
from .reductions import argmax, argmin, histogram, max, mean, min, sum, topk
from .rows import log_softmax, softmax

__all__ = [
    "activate",
    "adamw",
    "apply_mass",
    "apply_stiffness",
    "apply_stiffness_at_nodes",
    "argmax",
    "argmin",
    "conv2d",
    "cross_entropy",
    "dropout",
    "group_norm",
    "histogram",
    "layer_norm",
    "log_softmax",
    "max",
    "mean",
    "min",
    "rms_norm",
    "rotary_embedding",
    "softmax",
    "sum",
    "topk",
]
