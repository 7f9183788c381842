"""From mapped IR to TTIR, which Triton compiles for GPUs. Nothing here needs Triton."""

from .host import Prepared
from .lower_to_ttir import lower_to_ttir
from .lowered import LoweredTtir, Parameter, ParameterKind, TtirLaunch, print_ttir

__all__ = ["LoweredTtir", "Parameter", "ParameterKind", "Prepared", "TtirLaunch", "lower_to_ttir", "print_ttir"]
