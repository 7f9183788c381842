"""Working memory of calls: buffers and the caller's workspace for one call each, and workspaces of helpers for all."""

from __future__ import annotations

from vkernels.ir.fork_safe import fork_safe_lock

from .memory_blocks import Block, aligned

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
    """Workspaces of so many helpers, one after another, `workspace` bytes each rounded up; None if they need none.

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
