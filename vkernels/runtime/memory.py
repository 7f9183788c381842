"""Memory that kernels work in: aligned, not initialised, kept alive by the object that stands for it."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from vkernels.ir.errors import SetupError

ALIGNMENT = 64
"""Bytes; what generated code may assume of every buffer and workspace."""

_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
"""A forked child has memory of its own."""

MAPPED = 1 << 20
"""Blocks of at least this many bytes are mapped on their own, in huge pages where the system has them."""


class Block:
    """`size` bytes at `address`, a multiple of 64, as long as the object lives; `SetupError` where there are none."""

    __slots__ = ("_owner", "address", "size")

    def __init__(self, size: int):
        self.size = size
        self._owner = _mapped(size) if size >= MAPPED else np.empty(size + ALIGNMENT, np.uint8)
        self.address = aligned(self._owner.ctypes.data)


def _mapped(size: int) -> np.ndarray[Any, Any]:
    try:
        memory = mmap.mmap(-1, size, **_PRIVATE)
    except (OSError, OverflowError) as error:
        raise SetupError(f"no memory for a kernel's buffers: {size} bytes") from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)  # holds the mapping


def aligned(number: int) -> int:
    """A size or an address, rounded up to the alignment of buffers."""
    return -(-number // ALIGNMENT) * ALIGNMENT
