"""Portable kernels, one family a file. They take torch tensors or NumPy arrays and return the same."""

from .attention import attention
from .dense import matmul
from .mlp import mlp
from .rows import layer_norm, softmax
from .scans import cumulative_sum
from .segments import csr_matmul, segment_sum
from .stencils import stencil

__all__ = [
    "attention",
    "csr_matmul",
    "cumulative_sum",
    "layer_norm",
    "matmul",
    "mlp",
    "segment_sum",
    "softmax",
    "stencil",
]
