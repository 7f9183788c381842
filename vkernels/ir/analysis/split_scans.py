"""Scans along an axis that programs share: which there are, and what the launches before need to find what parts of
the axis combine to."""

from __future__ import annotations

from xdsl.ir import Operation

from ..dialect import KernelOp, PhaseOp, ScanByOp, ScanOp
from ..dialect.scans import scans_along
from .accesses import inputs_of
from .sources import source_of


def scans_by_depth(kernel: KernelOp, axis: str) -> list[tuple[list[ScanOp | ScanByOp], set[Operation]]]:
    """The scans along an axis, those that need no other first; with each group, the operations that compute what is
    scanned."""
    scans = [op for op in kernel.walk() if isinstance(op, ScanOp | ScanByOp) and scans_along(op, axis)]
    below = {op: _computed_from(op) for op in scans}
    depths: dict[Operation, int] = {}
    for op in scans:
        depths[op] = 1 + max((depths[one] for one in below[op] if one in depths), default=-1)
    groups = [[op for op in scans if depths[op] == depth] for depth in sorted({*depths.values()})]
    return [(group, set().union(*(below[op] for op in group))) for group in groups]


def _computed_from(op: Operation) -> set[Operation]:
    found: set[Operation] = set()
    todo: list[Operation] = [op]
    while todo:
        for value in inputs_of(todo.pop()):
            owner = source_of(value).owner
            if isinstance(owner, Operation) and owner not in found and not isinstance(owner, PhaseOp):
                found.add(owner)
                todo.append(owner)
    return found
