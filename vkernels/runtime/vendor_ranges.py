"""Mark kernel calls as ranges of NVTX or ROCTX, which NVIDIA's and AMD's profilers show."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from ctypes import CDLL, c_char_p
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Literal

from vkernels.ir.errors import OptionError, SetupError

from . import torch_profiler

Kind = Literal["nvtx", "roctx"]

FILES: dict[str, tuple[str, ...]] = {
    "nvtx": ("libnvToolsExt.so.1", "libnvToolsExt.so"),
    "roctx": ("librocprofiler-sdk-roctx.so", "librocprofiler-sdk-roctx.so.1", "libroctx64.so", "libroctx64.so.4"),
}
"""Libraries: of CUDA until version 12; of rocprofv3, then of AMD's earlier profilers."""

TORCH = "torch"
"""Has NVTX in it, where it is built for CUDA."""


@dataclass(frozen=True)
class Marker:
    """Begins and ends a range on the calling thread."""

    push: Callable[[str], object]
    pop: Callable[[], object]


class MarkedRanges:
    """Takes the place of torch's profiler for kernel calls; if that is active, both get their ranges."""

    _is_profiler_enabled = True

    def __init__(self, marker: Marker):
        self._marker = marker

    @contextmanager
    def record_function(self, kernel: str) -> Iterator[None]:
        """A range with the kernel's name, on the calling thread."""
        with ExitStack() as stack:
            torchs = torch_profiler.of_torch()
            if torchs._is_profiler_enabled:
                stack.enter_context(torchs.record_function(kernel))
            self._marker.push(kernel)
            stack.callback(self._marker.pop)
            yield


@contextmanager
def profiler_ranges(kind: Kind) -> Iterator[None]:
    """Within, calls of kernels in all threads are ranges with the kernel's name: `"nvtx"`, for NVIDIA's Nsight
    Systems, or `"roctx"`, for AMD's rocprofv3.

    A range covers the call on the host, which on a GPU only starts the work. Raises `SetupError` where neither the
    vendor's library nor, for NVTX, a build of torch for CUDA is installed.
    """
    if kind not in FILES:
        raise OptionError(f"profiler_ranges: expected nvtx or roctx, got {kind!r}")
    with torch_profiler.using(MarkedRanges(_marker(kind))):
        yield


def _marker(kind: Kind) -> Marker:
    found = _of_library(kind) or (_of_torch() if kind == "nvtx" else None)
    if found is not None:
        return found
    needs = "torch with CUDA, or CUDA's library" if kind == "nvtx" else "ROCm's library"
    raise SetupError(f"{kind.upper()} ranges need {needs}: there is no {FILES[kind][0]}")


def _of_library(kind: Kind) -> Marker | None:
    """By the vendor's library, if there is one."""
    library = next((found for name in FILES[kind] if (found := _loaded(name)) is not None), None)
    if library is None:
        return None
    push, pop = getattr(library, f"{kind}RangePushA"), getattr(library, f"{kind}RangePop")
    push.argtypes = [c_char_p]
    return Marker(lambda kernel: push(kernel.encode()), pop)


def _loaded(name: str) -> CDLL | None:
    try:
        return CDLL(name)
    except OSError:
        return None


def _of_torch() -> Marker | None:
    """By a build of torch for CUDA, which has NVTX in it."""
    if find_spec(TORCH) is None:
        return None
    import torch

    if torch.version.cuda is None:
        return None
    return Marker(torch.cuda.nvtx.range_push, torch.cuda.nvtx.range_pop)
