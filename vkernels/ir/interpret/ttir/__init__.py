"""The interpreter of TTIR: what the GPU lowering emits, executed in NumPy and checked access by access."""

from .kernels import interpret_ttir
from .regions import RuntimeMemory, TensorRegion
from .run import Value, run_ttir

__all__ = ["RuntimeMemory", "TensorRegion", "Value", "interpret_ttir", "run_ttir"]
