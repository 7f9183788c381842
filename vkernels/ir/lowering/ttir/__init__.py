"""From mapped IR to TTIR, which Triton compiles for GPUs. Nothing here needs Triton."""

from vkernels.ir.launch_arguments import HostArguments, LaunchParameter, ParameterKind

from .lower_to_ttir import lower_to_ttir
from .lowered import LoweredTtir, TtirLaunch, print_ttir

__all__ = [
    "HostArguments",
    "LaunchParameter",
    "LoweredTtir",
    "ParameterKind",
    "TtirLaunch",
    "lower_to_ttir",
    "print_ttir",
]
