"""Portable kernels, one family a file. They take torch tensors or NumPy arrays and return the same."""

from .activations import activate
from .attention import attention
from .attention_of_sequences import attention_of_sequences
from .convolution import conv2d
from .dense import batched_matmul, matmul
from .elements import adamw, dropout, rotary_embedding
from .experts import grouped_matmul, mixture_of_experts
from .finite_elements import apply_mass, apply_stiffness, apply_stiffness_at_nodes
from .losses import cross_entropy, log_softmax
from .mlp import mlp
from .norms import group_norm, rms_norm
from .reductions import argmax, argmin, histogram, max, mean, min, sum
from .rows import layer_norm, softmax
from .scans import cumulative_sum
from .segments import csr_matmul, segment_sum
from .selection import topk
from .sparse_products import block_matmul, ell_matmul, embedding_bag, sampled_matmul
from .stencils import stencil

__all__ = [
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
    "rms_norm",
    "rotary_embedding",
    "sampled_matmul",
    "segment_sum",
    "softmax",
    "stencil",
    "sum",
    "topk",
]
