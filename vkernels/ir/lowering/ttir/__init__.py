"""From mapped IR to TTIR, which Triton compiles for GPUs. Nothing here needs Triton."""

from .lower_to_ttir import lower_to_ttir
from .lowered import HostArguments, LaunchParameter, LoweredTtir, ParameterKind, TtirLaunch, print_ttir

__all__ = [
    "HostArguments",
    "LaunchParameter",
    "LoweredTtir",
    "ParameterKind",
    "TtirLaunch",
    "lower_to_ttir",
    "print_ttir",
]
