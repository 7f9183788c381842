"""What operations read and write, and where two accesses can meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from ..dialect import AccessOp, ScatterOp, StoreOp, axes_of

Place = tuple[int, int, SSAValue | None]
"""A dimension whose index is one axis times a coefficient plus an offset: (dimension, coefficient, offset)."""


@dataclass(frozen=True, eq=False)
class Access:
    """One load or store: its operation, what it addresses, and where each of its axes alone decides an index."""

    op: AccessOp
    base: SSAValue
    writes: bool
    atomic: bool
    axes: frozenset[str]
    places: dict[str, frozenset[Place]]


def accesses_of(op: Operation) -> list[Access]:
    """Every access in an operation and in the regions it holds, in program order."""
    if isinstance(op, AccessOp):
        return [_access(op)]
    return [access for region in op.regions for inner in region.walk() for access in _of_one(inner)]


def _of_one(op: Operation) -> list[Access]:
    return [_access(op)] if isinstance(op, AccessOp) else []


def _access(op: AccessOp) -> Access:
    places: dict[str, set[Place]] = {}
    for dimension, index in enumerate(op.index):
        offset = op.offset_of(dimension)
        terms = index.terms
        if len(terms) == 1 and terms[0][1] != 0 and not (offset is not None and isinstance(offset.type, TensorType)):
            places.setdefault(terms[0][0], set()).add((dimension, terms[0][1], offset))
    writes = isinstance(op, StoreOp | ScatterOp)
    atomic = isinstance(op, StoreOp | ScatterOp) and op.atomic is not None
    return Access(
        op, op.base, writes, atomic, frozenset(axes_of(op.tile)), {axis: frozenset(p) for axis, p in places.items()}
    )


def clash(one: Access, other: Access) -> bool:
    """Whether the order of two accesses matters where they touch the same element."""
    return one.base is other.base and (one.writes or other.writes) and not (one.atomic and other.atomic)


def elementwise(one: Access, other: Access, axes: Iterable[str] | None = None, loop: Operation | None = None) -> bool:
    """Whether two accesses to one memory can touch the same element only at the same position of every axis.

    Only `axes` are looked at where given. Within a `loop`, an offset that changes from one iteration to
    the next says nothing of two iterations' elements.
    """
    wanted = one.axes | other.axes if axes is None else axes
    return all(
        any(
            _is_fixed(offset, loop)
            for _, _, offset in one.places.get(axis, _NOWHERE) & other.places.get(axis, _NOWHERE)
        )
        for axis in wanted
    )


_NOWHERE: frozenset[Place] = frozenset()


def _is_fixed(offset: SSAValue | None, loop: Operation | None) -> bool:
    return offset is None or loop is None or not is_inside(offset, loop)


def is_inside(value: SSAValue, op: Operation) -> bool:
    """Whether a value is defined in a region of `op`."""
    block = value.owner if not isinstance(value.owner, Operation) else value.owner.parent
    while block is not None:
        parent = block.parent_op()
        if parent is op:
            return True
        block = parent.parent if parent is not None else None
    return False


def inputs_of(op: Operation) -> Iterator[SSAValue]:
    """An operation's operands, and the values from outside that its regions use."""
    yield from op.operands
    if not op.regions:
        return
    for region in op.regions:
        for inner in region.walk():
            for operand in inner.operands:
                if not is_inside(operand, op):
                    yield operand
