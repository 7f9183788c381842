"""The interpreter of TTIR: what the GPU lowering emits, executed in NumPy and checked access by access."""

from .descriptors import DescribedTensor
from .regions import RuntimeMemory, TensorRegion
from .run import Value, interpret_ttir, run_ttir

__all__ = ["DescribedTensor", "RuntimeMemory", "TensorRegion", "Value", "interpret_ttir", "run_ttir"]
