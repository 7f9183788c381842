"""The library's functions as torch's own operations: with gradients, under `torch.compile` and in CUDA graphs.

`import vkernels.torch` registers them as `torch.ops.vkernels`; `import vkernels` alone does not import torch.
"""

from vkernels.runtime.way import patient

from .activations import activate
from .attention import attention, attention_of_sequences
from .convolution import conv2d
from .dense import batched_matmul, matmul, mlp
from .elements import adamw, dropout, rotary_embedding
from .experts import grouped_matmul, mixture_of_experts
from .finite_elements import apply_mass, apply_stiffness, apply_stiffness_at_nodes
from .losses import cross_entropy
from .norms import group_norm, layer_norm, rms_norm
from .own import torch_op
from .reductions import argmax, argmin, histogram, max, mean, min, sum, topk
from .replacing import Report, replace, restore
from .rows import log_softmax, softmax
from .scans import cumulative_sum, stencil
from .sparse import block_matmul, csr_matmul, ell_matmul, embedding_bag, sampled_matmul, segment_sum

__all__ = [
    "Report",
    "activate",
    "adamw",
    "apply_mass",
    "apply_stiffness",
    "apply_stiffness_at_nodes",
    "argmax",
    "argmin",
    "attention",
    "attention_of_sequences",
    "batched_matmul",
    "block_matmul",
    "conv2d",
    "cross_entropy",
    "csr_matmul",
    "cumulative_sum",
    "dropout",
    "ell_matmul",
    "embedding_bag",
    "group_norm",
    "grouped_matmul",
    "histogram",
    "layer_norm",
    "log_softmax",
    "matmul",
    "max",
    "mean",
    "min",
    "mixture_of_experts",
    "mlp",
    "patient",
    "replace",
    "restore",
    "rms_norm",
    "rotary_embedding",
    "sampled_matmul",
    "segment_sum",
    "softmax",
    "stencil",
    "sum",
    "topk",
    "torch_op",
]
