"""Blocks that verify."""

from __future__ import annotations

from xdsl.ir import Block, Operation


def terminator(block: Block) -> Operation:
    """The last operation of a block that verifies."""
    assert block.last_op is not None, "an empty block does not verify"
    return block.last_op
