"""vkernels.runtime: compiling for a device, launching, the pool of threads. Knows kernels by protocol only."""

from .threads import get_threads, set_threads

__all__ = ["get_threads", "set_threads"]
