"""Arrays that end, or begin, where the process may not read: a stray access ends the test run."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)
_kept: list[mmap.mmap] = []


def guarded(array: np.ndarray, at_end: bool = True) -> np.ndarray:
    """A contiguous copy of an array between two pages that cannot be touched; `at_end`: right before the second."""
    page = mmap.PAGESIZE
    inside = max(page, -(-array.nbytes // page) * page)
    region = mmap.mmap(-1, inside + 2 * page)
    _kept.append(region)
    address = ctypes.addressof(ctypes.c_char.from_buffer(region))
    for start in (address, address + page + inside):
        if _libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(page), 0) != 0:
            raise OSError(ctypes.get_errno(), "mprotect")
    start = page + (inside - array.nbytes if at_end else 0)
    result = np.frombuffer(region, array.dtype, array.size, start).reshape(array.shape)
    result[...] = array
    return result


def poisoned(shape: tuple[int, ...], dtype: np.dtype | type, at_end: bool = True) -> np.ndarray:
    """Guarded memory full of NaN, or of a byte pattern where the dtype has none."""
    array = np.full(int(np.prod(shape)) * np.dtype(dtype).itemsize, 0xCD, np.uint8).view(dtype).reshape(shape)
    if np.issubdtype(dtype, np.floating):
        array[...] = np.nan
    return guarded(array, at_end)
