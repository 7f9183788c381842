"""The interpreter of TTIR: what the GPU lowering emits, executed in NumPy and checked access by access."""

from .kernels import interpret_ttir
from .regions import Space, Tensor
from .run import Value, run_ttir

__all__ = ["Space", "Tensor", "Value", "interpret_ttir", "run_ttir"]
