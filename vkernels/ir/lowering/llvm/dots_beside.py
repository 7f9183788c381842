"""Dots beside each other that share operands: lowered together, they load these once."""

from __future__ import annotations

from typing import TypeVar

from xdsl.ir import Operation, SSAValue

from ...dialect import DotOp, WordDotOp

Dot = TypeVar("Dot", DotOp, WordDotOp)


def dots_beside(operation: Dot) -> list[Dot]:
    """A dot, and those directly after it whose sums are like its own: each has an operand of one before it."""
    found, shared = [operation], {operation.left, operation.right}
    after: Operation | None = operation.next_op
    while isinstance(after, type(operation)) and _is_like(after, operation):
        sides: set[SSAValue] = {after.left, after.right}
        if shared.isdisjoint(sides):
            break
        found.append(after)
        shared |= sides
        after = after.next_op
    return found


def _is_like(one: DotOp | WordDotOp, other: DotOp | WordDotOp) -> bool:
    kinds = [dot.properties.get("kind") for dot in (one, other)]
    return (one.axis, one.result.type, kinds[0]) == (other.axis, other.result.type, kinds[1])
