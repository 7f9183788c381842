"""The functions that loaded code may call: those of the C library that LLVM emits calls of, and no others."""

from __future__ import annotations

import ctypes
import ctypes.util
from collections.abc import Sequence
from functools import cache
from typing import Any

from vkernels.ir.errors import FileError, SetupError

from .elf import ElfObject

_MATHS = (
    "acos", "asin", "atan", "atan2", "ceil", "copysign", "cos", "cosh", "erf", "exp", "exp2", "expm1", "fabs", "floor",
    "fma", "fmax", "fmin", "fmod", "ldexp", "log", "log10", "log1p", "log2", "nearbyint", "pow", "rint", "round",
    "roundeven", "sin", "sincos", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
ALLOWED = frozenset({"memcpy", "memmove", "memset", *_MATHS, *(f"{name}f" for name in _MATHS)})
"""Names of the C library's that code of kernels may need."""


def refuse_other_imports(read: ElfObject, where: str) -> None:
    """Raise `FileError` where an object needs a function that is not allowed."""
    if other := [name for name in read.imported if name not in ALLOWED]:
        raise FileError(f"{where}: the code calls {', '.join(other)}, which code in bundles may not")


def addresses_of(names: Sequence[str], where: str) -> dict[str, int]:
    """Addresses of allowed functions. Raises `FileError` for others, `SetupError` where this system lacks one."""
    found = {}
    for name in names:
        if name not in ALLOWED:
            raise FileError(f"{where}: the code calls {name}, which code in bundles may not")
        function = next((getattr(library, name) for library in _libraries() if hasattr(library, name)), None)
        if function is None:
            raise SetupError(f"{where}: the C library of this system has no {name}")
        found[name] = ctypes.cast(function, ctypes.c_void_p).value or 0
    return found


@cache
def _libraries() -> tuple[Any, ...]:
    """This process, which has the C library, and the library of mathematical functions."""
    maths = ctypes.util.find_library("m")
    return (ctypes.CDLL(None), *([ctypes.CDLL(maths)] if maths else []))
