"""Show kernels to torch's profiler while it is active. Otherwise a call looks at one flag."""

from __future__ import annotations

import sys
from typing import Any


class _Inactive:
    """In place of torch's module while torch is not loaded, or does not say whether its profiler is active."""

    _is_profiler_enabled = False


module: Any = _Inactive
"""`torch.autograd.profiler`; `_is_profiler_enabled` says whether a profiler is active, also `emit_nvtx`."""


def find() -> None:
    """Look for torch, which may have been loaded meanwhile."""
    global module
    found = sys.modules.get("torch.autograd.profiler")
    if hasattr(found, "_is_profiler_enabled"):
        module = found


def range_of(kernel: str) -> Any:
    """A context manager that the active profiler shows as a range with the kernel's name."""
    return module.record_function(kernel)
