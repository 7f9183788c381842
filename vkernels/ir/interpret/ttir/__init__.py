"""The interpreter of TTIR: what the GPU lowering emits, executed in NumPy and checked access by access."""

from .regions import RuntimeMemory, TensorRegion
from .run import Value, interpret_ttir, run_ttir

__all__ = ["RuntimeMemory", "TensorRegion", "Value", "interpret_ttir", "run_ttir"]
