"""What operations read and write, and their other effects. Where two accesses can meet: `meeting`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Block, Operation, SSAValue

from ..dialect import (
    AccessOp,
    AssertOp,
    KernelOp,
    PrintOp,
    RangeOp,
    TensorArgumentType,
    TileOp,
    WholeOp,
    WriteOp,
    arith,
    axes_of,
)

LOOPS = (RangeOp, scf.WhileOp, scf.ForOp)
CONTROL = (*LOOPS, scf.IfOp)
EFFECTS = (WriteOp, PrintOp, AssertOp)
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

    @cached_property
    def extents(self) -> dict[str, SSAValue]:
        """The extent of each axis of the kernel that the access is in."""
        kernel = next((op for op in ancestors(self.op) if isinstance(op, KernelOp)), None)
        ops = [] if kernel is None else [op for op in kernel.body.block.ops if isinstance(op, TileOp | WholeOp)]
        return {op.axis.data: op.extent for op in ops}


def may_alias(write: MemoryAccess, load: MemoryAccess, distinct: bool) -> bool:
    """Whether both access one memory, or two tensors that may be the same, unless all tensors are `distinct`."""
    one, other = write.base, load.base
    may_overlap = not distinct and isinstance(one.type, TensorArgumentType) and one.type == other.type
    return one is other or may_overlap


def accesses_of(op: Operation) -> list[MemoryAccess]:
    """Every access in an operation and in its regions, in program order."""
    return [_access(inner) for inner in (op.walk() if op.regions else (op,)) if isinstance(inner, AccessOp)]


def has_effect(op: Operation) -> bool:
    """Whether an operation or one in its regions has an effect besides its results."""
    return any(isinstance(inner, EFFECTS) for inner in (op.walk() if op.regions else (op,)))


def _access(op: AccessOp) -> MemoryAccess:
    writes = isinstance(op, WriteOp)
    atomic = op.atomic.data if isinstance(op, WriteOp) and op.atomic is not None else ""
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


def same_index(one: Dimension, other: Dimension, loads: bool = False) -> bool:
    """Whether two indices are equal. `loads`: also if their offsets are loaded from the same place."""
    if one.terms != other.terms or isinstance(one.offset, int) or isinstance(other.offset, int):
        return one.terms == other.terms and one.offset == other.offset
    return computed_alike(one.offset, other.offset, loads)


def computed_alike(one: SSAValue, other: SSAValue, loads: bool) -> bool:
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
    return alike and all(computed_alike(x, y, loads) for x, y in zip(a.operands, b.operands, strict=True))


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
