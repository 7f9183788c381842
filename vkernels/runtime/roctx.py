"""Mark kernel calls as ROCTX ranges, which AMD's profilers show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ctypes import CDLL, c_char_p
from typing import Any

from vkernels.ir.errors import SetupError

from . import torch_profiler

LIBRARIES = ("librocprofiler-sdk-roctx.so", "librocprofiler-sdk-roctx.so.1", "libroctx64.so", "libroctx64.so.4")
"""The library of rocprofv3, then that of earlier profilers."""


class RoctxRanges:
    """Takes the place of torch's profiler for kernel calls; if that is active, both get their ranges."""

    _is_profiler_enabled = True

    def __init__(self, library: Any):
        self._library = library

    @contextmanager
    def record_function(self, kernel: str) -> Iterator[None]:
        """A range with the kernel's name, on the calling thread."""
        with ExitStack() as stack:
            torchs = torch_profiler.of_torch()
            if torchs._is_profiler_enabled:
                stack.enter_context(torchs.record_function(kernel))
            self._library.roctxRangePushA(kernel.encode())
            stack.callback(self._library.roctxRangePop)
            yield


@contextmanager
def roctx_ranges() -> Iterator[None]:
    """Within, calls of kernels in all threads are ROCTX ranges. Raises `SetupError` where there is no library."""
    with torch_profiler.using(RoctxRanges(_library())):
        yield


def _library() -> Any:
    for name in LIBRARIES:
        try:
            library = CDLL(name)
        except OSError:
            continue
        library.roctxRangePushA.argtypes = [c_char_p]
        return library
    raise SetupError(f"ROCTX ranges need ROCm's library: there is no {LIBRARIES[0]}")
