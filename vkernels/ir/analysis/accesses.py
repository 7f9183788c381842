"""What operations read and write, their other effects, and where two accesses can meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import gcd

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from ..dialect import AccessOp, AssertOp, PrintOp, RangeOp, ScatterOp, StoreOp, arith, axes_of

LOOPS = (RangeOp, scf.WhileOp, scf.ForOp)
CONTROL = (*LOOPS, scf.IfOp)
EFFECTS = (StoreOp, ScatterOp, PrintOp, AssertOp)
"""Operations that have an effect besides their results."""


@dataclass(frozen=True)
class Dimension:
    """The index of one dimension: a sum of axes times coefficients, and an offset, which is a number if constant.

    `along`: the axes of an offset that is an index tile.
    """

    terms: frozenset[tuple[str, int]]
    offset: SSAValue | int
    along: frozenset[str]


@dataclass(frozen=True, eq=False)
class MemoryAccess:
    """One load or store: its operation, the memory and the index. `atomic`: the kind of atomic update, or empty."""

    op: AccessOp
    base: SSAValue
    writes: bool
    atomic: str
    axes: frozenset[str]
    index: tuple[Dimension, ...]


def accesses_of(op: Operation) -> list[MemoryAccess]:
    """Every access in an operation and in its regions, in program order."""
    return [_access(inner) for inner in (op.walk() if op.regions else (op,)) if isinstance(inner, AccessOp)]


def has_effect(op: Operation) -> bool:
    """Whether an operation or one in its regions has an effect besides its results."""
    return any(isinstance(inner, EFFECTS) for inner in (op.walk() if op.regions else (op,)))


def _access(op: AccessOp) -> MemoryAccess:
    writes = isinstance(op, StoreOp | ScatterOp)
    atomic = op.atomic.data if isinstance(op, StoreOp | ScatterOp) and op.atomic is not None else ""
    index = tuple(_dimension(index.terms, op.offset_of(number)) for number, index in enumerate(op.index))
    return MemoryAccess(op, op.base, writes, atomic, frozenset(axes_of(op.tile)), index)


def _dimension(terms: Iterable[tuple[str, int]], offset: SSAValue | None) -> Dimension:
    kept = frozenset((axis, coefficient) for axis, coefficient in terms if coefficient)
    if offset is None:
        return Dimension(kept, 0, frozenset())
    constant = constant_of(offset)
    return Dimension(kept, offset if constant is None else constant, frozenset(axes_of(offset)))


def constant_of(value: SSAValue) -> int | None:
    """The number of an integer constant; None for another value."""
    op = value.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    return None


def clash(one: MemoryAccess, other: MemoryAccess) -> bool:
    """Whether two accesses may touch the same element, and their order matters there."""
    if one.base is not other.base or not (one.writes or other.writes):
        return False
    return not (one.atomic and one.atomic == other.atomic) and not _never_meet(one, other)


def _never_meet(one: MemoryAccess, other: MemoryAccess) -> bool:
    """Whether the indices of some dimension are never equal at any positions: `x[2 * i]` and `x[2 * i + 1]`."""
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

    Considers only `axes` if given. Within a `loop`, an offset that changes between iterations does not determine
    which elements two iterations access.
    """
    wanted = one.axes | other.axes if axes is None else frozenset(axes)
    return wanted <= fixed_axes(one, other, loop)


def fixed_axes(one: MemoryAccess, other: MemoryAccess, loop: Operation | None = None) -> set[str]:
    """The axes whose positions must be the same where two accesses to one memory touch the same element.

    A dimension with equal indices fixes one axis, once all other axes of its index are fixed. Within a `loop`, an
    offset that changes by less than the axis's coefficient fixes it too: `x[4 * i + k]`, k below 4.
    """
    fixed: set[str] = set()
    alike = [a for a, b in zip(one.index, other.index, strict=True) if same_index(a, b)]
    while True:
        more = set()
        for dimension in alike:
            free = [term for term in dimension.terms if term[0] not in fixed]
            if len(free) == 1 and dimension.along <= fixed and _changes_less(dimension.offset, free[0][1], loop):
                more.add(free[0][0])
        if not more:
            return fixed
        fixed |= more


def same_index(one: Dimension, other: Dimension, loads: bool = False) -> bool:
    """Whether two indices are equal. `loads`: also if their offsets are loaded from the same place."""
    if one.terms != other.terms or isinstance(one.offset, int) or isinstance(other.offset, int):
        return one.terms == other.terms and one.offset == other.offset
    return _computed_alike(one.offset, other.offset, loads)


def _computed_alike(one: SSAValue, other: SSAValue, loads: bool) -> bool:
    """Whether two values are computed by the same operations from the same values. `loads`: through loads as well; the
    values are then equal only if nothing was written between the loads."""
    if one is other:
        return True
    a, b = one.owner, other.owner
    if isinstance(a, Block) or isinstance(b, Block) or type(a) is not type(b) or a.regions:
        return False
    if (isinstance(a, AccessOp) and not loads) or one.type != other.type or len(a.results) > 1:
        return False
    alike = a.properties == b.properties and a.attributes == b.attributes and len(a.operands) == len(b.operands)
    return alike and all(_computed_alike(x, y, loads) for x, y in zip(a.operands, b.operands, strict=True))


def _changes_less(offset: SSAValue | int, coefficient: int, loop: Operation | None) -> bool:
    """Whether an offset changes by less than a coefficient from one iteration of a loop to another."""
    if isinstance(offset, int) or loop is None or not is_inside(offset, loop):
        return True
    span = _span(offset, loop)
    return span is not None and span < abs(coefficient)


def _span(value: SSAValue, loop: Operation) -> int | None:
    """By how much a scalar may change within a loop; None if unknown."""
    if constant_of(value) is not None or not is_inside(value, loop):
        return 0
    owner = value.owner
    if isinstance(owner, Block):
        parent = owner.parent_op()
        if not isinstance(parent, RangeOp) or parent.is_ragged or value is not owner.args[0]:
            return None
        start, stop = constant_of(parent.start), constant_of(parent.stop)
        return None if start is None or stop is None else max(0, stop - start - 1)
    spans = [_span(operand, loop) for operand in owner.operands]
    if isinstance(owner, arith.AddiOp | arith.SubiOp) and spans[0] is not None and spans[1] is not None:
        return spans[0] + spans[1]
    if isinstance(owner, arith.MuliOp):
        for span, factor in zip(spans, map(constant_of, reversed(owner.operands)), strict=True):
            if span is not None and factor is not None:
                return span * abs(factor)
    return None


def ancestors(node: Operation | Block) -> Iterator[Operation]:
    """The operations around an operation or block, innermost first."""
    while (parent := node.parent_op()) is not None:
        yield parent
        node = parent


def is_inside(value: SSAValue, op: Operation) -> bool:
    """Whether a value is defined in a region of `op`."""
    return op in ancestors(value.owner)


def inputs_of(op: Operation) -> Iterator[SSAValue]:
    """An operation's operands, and the values from outside that its regions use."""
    yield from op.operands
    for inner in (inner for region in op.regions for inner in region.walk()):
        yield from (operand for operand in inner.operands if not is_inside(operand, op))
