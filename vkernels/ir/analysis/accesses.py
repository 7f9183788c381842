"""What operations read and write, and where two accesses can meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd

from xdsl.dialects.builtin import IntegerAttr, TensorType
from xdsl.ir import Block, Operation, SSAValue

from ..dialect import AccessOp, RangeOp, ScatterOp, StoreOp, arith, axes_of


@dataclass(frozen=True)
class Dimension:
    """The index of one dimension: a sum of axes times coefficients, and an offset, a number where it is constant.

    `along`: the axes of an offset that is an index tile.
    """

    terms: frozenset[tuple[str, int]]
    offset: SSAValue | int
    along: frozenset[str]


@dataclass(frozen=True, eq=False)
class MemoryAccess:
    """One load or store: its operation, what it addresses and where. `atomic`: how it updates, empty if it does not."""

    op: AccessOp
    base: SSAValue
    writes: bool
    atomic: str
    axes: frozenset[str]
    index: tuple[Dimension, ...]


def accesses_of(op: Operation) -> list[MemoryAccess]:
    """Every access in an operation and in the regions it holds, in program order."""
    if isinstance(op, AccessOp):
        return [_access(op)]
    return [access for region in op.regions for inner in region.walk() for access in _of_one(inner)]


def _of_one(op: Operation) -> list[MemoryAccess]:
    return [_access(op)] if isinstance(op, AccessOp) else []


def _access(op: AccessOp) -> MemoryAccess:
    writes = isinstance(op, StoreOp | ScatterOp)
    atomic = op.atomic.data if isinstance(op, StoreOp | ScatterOp) and op.atomic is not None else ""
    index = tuple(_dimension(index.terms, op.offset_of(number)) for number, index in enumerate(op.index))
    return MemoryAccess(op, op.base, writes, atomic, frozenset(axes_of(op.tile)), index)


def _dimension(terms: Iterable[tuple[str, int]], offset: SSAValue | None) -> Dimension:
    kept = frozenset((axis, coefficient) for axis, coefficient in terms if coefficient)
    if offset is None:
        return Dimension(kept, 0, frozenset())
    along = frozenset(axes_of(offset)) if isinstance(offset.type, TensorType) else frozenset()
    return Dimension(kept, constant_of(offset), along)


def constant_of(value: SSAValue) -> SSAValue | int:
    """The number that a value is, where it is a constant; else the value."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return value


def clash(one: MemoryAccess, other: MemoryAccess) -> bool:
    """Whether the order of two accesses matters where they touch the same element, and they may touch one."""
    if one.base is not other.base or not (one.writes or other.writes):
        return False
    return not (one.atomic and one.atomic == other.atomic) and not _never_meet(one, other)


def _never_meet(one: MemoryAccess, other: MemoryAccess) -> bool:
    """Whether some dimension's indices are never equal, whatever the positions: `x[2 * i]` and `x[2 * i + 1]`."""
    for a, b in zip(one.index, other.index, strict=True):
        if isinstance(a.offset, int) and isinstance(b.offset, int) and a.offset != b.offset:
            step = gcd(*(coefficient for _, coefficient in (*a.terms, *b.terms)))
            if step == 0 or (a.offset - b.offset) % step:
                return True
    return False


def elementwise(
    one: MemoryAccess, other: MemoryAccess, axes: Iterable[str] | None = None, loop: Operation | None = None
) -> bool:
    """Whether two accesses to one memory can touch the same element only at the same position of every axis.

    Only `axes` are looked at where given. Within a `loop`, an offset that changes from one iteration to
    the next says nothing of two iterations' elements.
    """
    wanted = one.axes | other.axes if axes is None else frozenset(axes)
    return wanted <= axes_told(one, other, loop)


def axes_told(one: MemoryAccess, other: MemoryAccess, loop: Operation | None = None) -> set[str]:
    """The axes whose positions must be the same where two accesses to one memory touch the same element.

    A dimension that both index alike tells one axis, once all others that are in its index are told. Within a `loop`
    an offset that changes tells the axis if it changes by less than the axis's coefficient: `x[4 * i + k]`, k below 4.
    """
    told: set[str] = set()
    alike = [a for a, b in zip(one.index, other.index, strict=True) if _is_alike(a, b)]
    while True:
        more = set()
        for dimension in alike:
            free = [term for term in dimension.terms if term[0] not in told]
            if len(free) == 1 and dimension.along <= told and _changes_less(dimension.offset, free[0][1], loop):
                more.add(free[0][0])
        if not more:
            return told
        told |= more


def _is_alike(one: Dimension, other: Dimension) -> bool:
    if one.terms != other.terms:
        return False
    if isinstance(one.offset, int) or isinstance(other.offset, int):
        return one.offset == other.offset
    return computed_alike(one.offset, other.offset)


def computed_alike(one: SSAValue, other: SSAValue, loads: bool = False) -> bool:
    """Whether two values are computed by the same operations from the same values; through loads as well, if `loads`:
    they are then equal only where nothing was written between."""
    if one is other:
        return True
    a, b = one.owner, other.owner
    if isinstance(a, Block) or isinstance(b, Block) or type(a) is not type(b) or a.regions:
        return False
    if (isinstance(a, AccessOp) and not loads) or one.type != other.type or len(a.results) > 1:
        return False
    alike = a.properties == b.properties and a.attributes == b.attributes and len(a.operands) == len(b.operands)
    return alike and all(computed_alike(x, y, loads) for x, y in zip(a.operands, b.operands, strict=True))


def _changes_less(offset: SSAValue | int, coefficient: int, loop: Operation | None) -> bool:
    """Whether an offset changes by less than a coefficient from one iteration of a loop to another."""
    if isinstance(offset, int) or loop is None or not is_inside(offset, loop):
        return True
    span = _span(offset, loop)
    return span is not None and span < abs(coefficient)


def _span(value: SSAValue, loop: Operation) -> int | None:
    """By how much a scalar may change within a loop; None where that is not known."""
    if isinstance(constant_of(value), int) or not is_inside(value, loop):
        return 0
    owner = value.owner
    if isinstance(owner, Block):
        parent = owner.parent_op()
        if not isinstance(parent, RangeOp) or parent.is_ragged or value is not owner.args[0]:
            return None
        start, stop = constant_of(parent.start), constant_of(parent.stop)
        return max(0, stop - start - 1) if isinstance(start, int) and isinstance(stop, int) else None
    spans = [_span(operand, loop) for operand in owner.operands]
    if isinstance(owner, arith.AddiOp | arith.SubiOp) and spans[0] is not None and spans[1] is not None:
        return spans[0] + spans[1]
    if isinstance(owner, arith.MuliOp):
        for span, factor in zip(spans, map(constant_of, reversed(owner.operands)), strict=True):
            if span is not None and isinstance(factor, int):
                return span * abs(factor)
    return None


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
