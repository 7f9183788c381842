"""vkernels: GPU kernels written once, without limits, mapped onto what each device has.

`import vkernels as vk` gives what kernels are written with; `vkernels.library` has kernels ready to call.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vkernels.compiler.default_session import default_session as _default_session
from vkernels.compiler.default_session import patient
from vkernels.compiler.tuned_plans import PlanQuery as _PlanQuery
from vkernels.compiler.tuned_plans import TunedPlan as _TunedPlan
from vkernels.compiler.tuned_plans import TunedVariant as _TunedVariant
from vkernels.ir.budget import Budget
from vkernels.ir.errors import (
    ArgumentError,
    AxisError,
    BudgetError,
    BundleError,
    CheckError,
    Error,
    FileError,
    IRError,
    KernelWarning,
    NotInBundleError,
    OptionError,
    OutOfMemoryError,
    OverLimitWarning,
    PlanError,
    RaceError,
    ResourceError,
    SetupError,
    SlowPlanWarning,
    SourceError,
    TypeMismatchError,
    UnknownNameError,
    UnsupportedError,
    UntrustedError,
)
from vkernels.ir.limits import Limits
from vkernels.ir.pin import Pin
from vkernels.ir.plan import Home, Plan
from vkernels.runtime import (
    LaunchEvent,
    cohost,
    get_deterministic,
    get_priority,
    get_threads,
    on_launch,
    priority,
    profile,
    profiler_ranges,
    set_deterministic,
    set_threads,
    stats,
)

from .bundles.vk_load import load

# isort: split
from .language import *  # type: ignore[no-redef]  # its load is that in kernels; mypy keeps the first, Python the last

# isort: split
from .bundles.vk_load import load  # noqa: F811

if TYPE_CHECKING:
    from collections.abc import Sequence as _Sequence

    from vkernels.compiler.call_profiles import CallKey as _CallKey
    from vkernels.compiler.call_profiles import CallProfile as _CallProfile
    from vkernels.torch.custom_ops import torch_op

    from .autotune.database.launches import use_database
    from .autotune.python_interface import tune
    from .autotune.trials import Trial
    from .autotune.tuned import Tuned, Tunings
    from .inspect.admit import Admission, admit

__all__ = [
    "Admission", "ArgumentError", "Axis", "AxisError", "Budget", "BudgetError", "BundleError", "CheckError",
    "Constant", "DType", "Error", "FileError", "Function", "Home", "IRError", "Kernel", "KernelWarning", "LaunchEvent",
    "Limits", "NotInBundleError", "OptionError", "OutOfMemoryError", "OverLimitWarning", "Parameter", "Pin", "Plan",
    "PlanError", "RaceError", "ResourceError", "Scalar", "Scratch", "SetupError", "SlowPlanWarning", "SourceError",
    "Tensor", "Tile", "Trial", "Tuned", "Tuning", "Tunings", "TypeMismatchError", "UnknownNameError",
    "UnsupportedError", "UntrustedError", "abs", "admit", "all", "any", "argmax", "argmin", "argsort", "atomic_add",
    "atomic_cas", "atomic_exchange", "atomic_max", "atomic_min", "bfloat16", "bits", "bool", "bool_", "broadcast",
    "cast", "ceil", "clamp", "cohost", "complex", "complex64", "complex128", "compute_dtype", "conj", "cos",
    "cumulative_max", "cumulative_min", "cumulative_product", "cumulative_sum", "device_assert", "dot", "erf", "exp",
    "exp2", "expm1", "float8_e4m3fn", "float8_e5m2", "float16", "float32", "float64", "floor", "fma", "full",
    "full_like", "function", "gelu", "get_deterministic", "get_priority", "get_threads", "imag", "int8", "int16",
    "int32", "int64", "isinf", "isnan", "kernel", "load", "log", "log1p", "log2", "max", "maximum", "mean", "min",
    "minimum", "on_launch", "patient", "phase", "pow", "print", "priority", "product", "profile", "profiler_ranges",
    "promote", "random", "random_bits", "range", "real", "reduce", "relu", "reshape", "round", "rsqrt", "scan",
    "scratch", "set_deterministic", "set_threads", "sigmoid", "silu", "sin", "size", "sort", "sqrt", "stats", "store",
    "sum", "tanh", "tile", "topk", "torch_op", "transpose", "trunc", "tunable", "tune", "uint8", "uint16", "uint32",
    "uint64", "use_database", "where", "whole", "zeros", "zeros_like",
]  # fmt: skip


class _TuningDatabase:
    """Gives the session the plans of the tuning database, which is imported when the first is asked for."""

    def plans(self, query: _PlanQuery) -> tuple[_TunedPlan, ...]:
        from .autotune.database.launches import plans_for

        return plans_for(query)

    def variants(self, query: _PlanQuery) -> tuple[_TunedVariant, ...]:
        from .autotune.database.launches import versions_for

        return versions_for(query)


class _ProfileStore:
    """Keeps profiles of calls in the tuning database, which is imported when the first is asked for."""

    def profiles(self, key: "_CallKey") -> "list[_CallProfile]":
        from .autotune.database.profile_store import stored_profiles

        return stored_profiles(key)

    def keep(self, profiles: "_Sequence[_CallProfile]") -> None:
        from .autotune.database.profile_store import store_profiles

        store_profiles(profiles)


def _tune_first_use(kernel: Any, inputs: Mapping[str, Any]) -> None:
    """Tunes a kernel that is declared so; the tuner is imported when the first such kernel is called."""
    from .autotune.first_use import tune_first_use

    tune_first_use(kernel, inputs)


_default_session().use_provider(_TuningDatabase())
_default_session().tune_first_use = _tune_first_use
_default_session().profile_store = _ProfileStore()


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__", *(name for name in globals() if name.startswith("__"))])


_LATE = {
    "torch_op": "vkernels.torch.custom_ops",
    "use_database": "vkernels.autotune.database.launches",
    "tune": "vkernels.autotune.python_interface",
    "Admission": "vkernels.inspect.admit",
    "admit": "vkernels.inspect.admit",
    "Trial": "vkernels.autotune.trials",
    "Tuned": "vkernels.autotune.tuned",
    "Tunings": "vkernels.autotune.tuned",
}
"""Names that are imported when they are asked for, since torch, the tuner or the cost model comes with them."""


def __getattr__(name: str) -> Any:
    """What is imported late, and `__version__`, which reads the installation."""
    if name == "__version__":
        from .ir.own_version import own_version

        return own_version()
    if name in _LATE:
        from importlib import import_module

        try:
            return getattr(import_module(_LATE[name]), name)
        except ModuleNotFoundError as error:
            from .ir.optional_packages import not_installed

            raise not_installed(error) from None
    import sys

    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])
