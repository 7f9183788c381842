"""vkernels: GPU kernels written once, without limits, mapped onto what each device has.

`import vkernels as vk` gives what kernels are written with; `vkernels.library` has kernels ready to call.
"""

from vkernels.ir.errors import (
    ArgumentError,
    AxisError,
    CheckError,
    Error,
    FileError,
    IRError,
    OptionError,
    PlanError,
    SetupError,
    SourceError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
)
from vkernels.ir.limits import Limits
from vkernels.ir.plan import Home, Plan
from vkernels.runtime import get_threads, set_threads

from .language import *  # noqa: F403
from .language import __all__ as _language

__all__ = [
    *_language, "ArgumentError", "AxisError", "CheckError", "Error", "FileError", "Home", "IRError", "Limits",
    "OptionError", "Plan", "PlanError", "SetupError", "SourceError", "TypeMismatchError", "UnknownNameError",
    "UnsupportedError", "get_threads", "set_threads",
]  # fmt: skip
