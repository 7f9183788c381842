"""Whether programs of a kernel may repeat what others do."""

from __future__ import annotations

from xdsl.ir import BlockArgument

from ..dialect import AccessOp, KernelOp, PrintOp, StoreOp, WriteOp


def may_repeat(kernel: KernelOp) -> bool:
    """Whether a position that two programs compute has the same results as one that a single program computes.

    Every write is a plain store to a tensor from which the kernel loads nothing, so both programs store equal values.
    Only if no tensor that is written overlaps another: the caller knows, from `Facts.distinct`.
    """
    ops = list(kernel.walk())
    if any(isinstance(op, PrintOp) for op in ops):
        return False
    accesses = [op for op in ops if isinstance(op, AccessOp)]
    writes = [op for op in accesses if isinstance(op, WriteOp)]
    read = {op.base for op in accesses if not isinstance(op, WriteOp)}
    return all(_is_plain(op) and op.base not in read for op in writes)


def _is_plain(op: WriteOp) -> bool:
    """Whether an operation stores values to a tensor of the caller, at positions that indices alone tell."""
    return isinstance(op, StoreOp) and op.atomic is None and isinstance(op.base, BlockArgument)
