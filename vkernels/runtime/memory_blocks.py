"""Blocks of memory for kernels: aligned, not initialised, alive as long as the object."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

from vkernels.ir.errors import OutOfMemoryError
from vkernels.ir.fork_safe import fork_safe_lock

ALIGNMENT = 64
"""Bytes; what generated code may assume of every buffer and workspace."""

_PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
"""A forked child has memory of its own."""

MIN_MAPPED_BYTES = 1 << 20
"""Blocks of at least this many bytes are mapped on their own, in huge pages where the system has them."""


class Block:
    """`size` bytes at `address`, a multiple of 64, as long as the object lives. Raises `OutOfMemoryError`."""

    __slots__ = ("_owner", "address", "size")

    def __init__(self, size: int):
        self.size = size
        self._owner = _mapped(size) if size >= MIN_MAPPED_BYTES else _plain(size + ALIGNMENT)
        self.address = aligned(self._owner.ctypes.data)


def _mapped(size: int) -> np.ndarray[Any, Any]:
    try:
        memory = mmap.mmap(-1, size, **_PRIVATE)
    except (OSError, OverflowError) as error:
        raise _none(size) from error
    if hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, np.uint8)  # holds the mapping


def _plain(size: int) -> np.ndarray[Any, Any]:
    try:
        return np.empty(size, np.uint8)
    except MemoryError as error:
        raise _none(size) from error


def _none(size: int) -> OutOfMemoryError:
    return OutOfMemoryError(f"no memory for a kernel's buffers: {size} bytes")


def aligned(number: int, alignment: int = ALIGNMENT) -> int:
    """A size or an address, rounded up to the alignment of buffers."""
    return -(-number // alignment) * alignment


_spare: list[Block] = []
_helpers: Block | None = None
_lock = fork_safe_lock()


def borrow(size: int) -> Block:
    """A block of at least `size` bytes, for this caller alone until it is given back; it is not cleared."""
    try:
        block = _spare.pop()
    except IndexError:
        return Block(size)
    # Doubled, so that what older calls were given adds up to no more than the largest.
    return block if block.size >= size else Block(max(size, 2 * block.size))


def give_back(block: Block) -> None:
    """Let other calls use a block."""
    _spare.append(block)


def helper_workspaces(helpers: int, workspace: int) -> Block | None:
    """Workspaces of helpers, one after another, `workspace` bytes each, rounded up; None if they need none.

    All calls share them: the pool serves one call at a time.
    """
    global _helpers
    needed = helpers * aligned(workspace)
    if needed == 0:
        return None
    with _lock:
        if _helpers is None or _helpers.size < needed:
            _helpers = Block(needed if _helpers is None else max(needed, 2 * _helpers.size))
        return _helpers
