"""Show kernels to torch's profiler while it is active. Otherwise a call looks at one flag."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class _Inactive:
    """In place of torch's module while torch is not loaded, or does not say whether its profiler is active."""

    _is_profiler_enabled = False


module: Any = _Inactive
"""`torch.autograd.profiler`; `_is_profiler_enabled` says whether a profiler is active, also `emit_nvtx`."""


_other: Any = None
"""What takes the place of torch's module, if anything does."""


def find() -> None:
    """Look for torch, which may have been loaded meanwhile."""
    global module
    module = _other or of_torch()


def of_torch() -> Any:
    """torch's module; `_Inactive` while it is not loaded."""
    found = sys.modules.get("torch.autograd.profiler")
    return found if hasattr(found, "_is_profiler_enabled") else _Inactive


@contextmanager
def using(other: Any) -> Iterator[None]:
    """Within, calls in all threads look at this in place of torch's module."""
    global _other
    before, _other = _other, other
    find()
    try:
        yield
    finally:
        _other = before
        find()


def range_of(kernel: str) -> Any:
    """A context manager that the active profiler shows as a range with the kernel's name."""
    return module.record_function(kernel)
