"""Barriers for devices where elements move between threads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from math import inf

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from ..analysis.accesses import constant_of
from ..dialect import (
    AccessOp,
    BarrierOp,
    LaunchOp,
    MappedOp,
    MemoryType,
    ScatterOp,
    TensorArgumentType,
    WriteOp,
    sizes_of,
)
from ..dialect.attributes import IndexAttr
from ..dialect.blocks import terminator
from ..facts import Facts


class AccessKind(Enum):
    """How memory has been accessed since the last barrier."""

    READ = "read"
    WRITE = "write"
    ATOMIC = "atomic"


@dataclass(frozen=True)
class InsertBarriers(ModulePass):
    """Insert a `vk.barrier` before every access that conflicts with an earlier one of any thread, one of them a write.

    `apply-plan` omits barriers between accesses at the same index, because the same thread makes both if tiles have the
    same layout in registers. On a GPU an element may belong to another thread in another tile, or to several threads
    in a small tile, so every such pair of accesses needs a barrier.
    """

    name = "insert-barriers"
    result = "mapped IR with barriers between threads that share memory"

    def apply(self, context: Context, module: ModuleOp) -> None:
        insert_barriers(module)


@dataclass(frozen=True)
class PendingAccess:
    """An access since the last barrier.

    `chunks`: the loops whose chunks it accesses, with the dimension: such accesses of different iterations touch
    different elements. `earlier`: the loops of which an earlier iteration made the access.
    """

    memory: Hashable
    how: AccessKind
    chunks: frozenset[tuple[SSAValue, int]] = frozenset()
    earlier: frozenset[SSAValue] = frozenset()

    def meets(self, before: PendingAccess) -> bool:
        """Whether there must be a barrier between this access and one before it."""
        if self.memory != before.memory or (self.how == before.how != AccessKind.WRITE):
            return False
        return not any(loop in before.earlier for loop, _ in self.chunks & before.chunks)


Touched = frozenset[PendingAccess]
_NOTHING: Touched = frozenset()


def insert_barriers(module: ModuleOp) -> None:
    """Run the pass on every mapped kernel of a module."""
    for mapped in module.ops:
        if isinstance(mapped, MappedOp):
            distinct = Facts.from_attribute(mapped.facts).distinct
            for launch in mapped.body.block.ops:
                if isinstance(launch, LaunchOp):
                    _Walk(distinct, inserts=True).block(launch.body.block, _NOTHING)


@dataclass(frozen=True)
class _Walk:
    """A walk over a program in execution order; without `inserts`, it only finds accesses since the last barrier."""

    distinct: bool
    inserts: bool

    def block(self, block: Block, touched: Touched) -> Touched:
        for op in [*block.ops]:
            touched = self.operation(op, touched)
        return touched

    def operation(self, op: Operation, touched: Touched) -> Touched:
        match op:
            case BarrierOp():
                return _NOTHING
            case AccessOp():
                return self.access(op, touched)
            case scf.ForOp():
                return self.loop(op, touched)
            case scf.WhileOp():
                return self.while_(op, touched)
            case scf.IfOp():
                return self.branches(op, touched)
            case _:
                return touched

    def access(self, op: AccessOp, touched: Touched) -> Touched:
        access = PendingAccess(self.key(op.base), _touch_of(op), _chunks_of(op))
        if any(access.meets(before) for before in touched):
            self.barrier_before(op)
            touched = _NOTHING
        return touched | {access}

    def barrier_before(self, op: Operation) -> None:
        if self.inserts and op.parent is not None:
            op.parent.insert_op_before(BarrierOp(), op)

    def key(self, base: SSAValue) -> Hashable:
        """The same key for memory that may overlap: tensors of one type may be the same tensor."""
        return base.type if isinstance(base.type, TensorArgumentType) and not self.distinct else base

    def loop(self, op: scf.ForOp, touched: Touched) -> Touched:
        last = terminator(op.body.block)
        position, *carried = op.body.block.args
        entered = _renamed(touched, op.iter_args, carried)
        accesses = [PendingAccess(self.key(a.base), _touch_of(a)) for a in op.body.walk() if isinstance(a, AccessOp)]
        if any(access.meets(before) for access in accesses for before in entered):
            self.barrier_before(op)  # one here rather than one an iteration
            touched = entered = _NOTHING

        def body(walk: _Walk, start: Touched) -> Touched:
            end = walk.block(op.body.block, start)
            ended = frozenset(replace(access, earlier=access.earlier | {position}) for access in end)
            return _renamed(ended, last.operands, carried)

        after = self.repeat(body, entered) | entered
        left = frozenset(replace(access, earlier=access.earlier - {position}) for access in after)
        return touched | _renamed(left, carried, op.results)

    def while_(self, op: scf.WhileOp, touched: Touched) -> Touched:
        before, after = op.before_region.block, op.after_region.block
        condition, last = terminator(before), terminator(after)
        entered = _renamed(touched, op.arguments, before.args)

        def body(walk: _Walk, start: Touched) -> Touched:
            handed = _renamed(walk.block(before, start), condition.operands[1:], after.args)
            return _renamed(walk.block(after, handed), last.operands, before.args)

        steady = self.repeat(body, entered) | entered
        left = _Walk(self.distinct, inserts=False).block(before, steady)
        return touched | left | _renamed(left, condition.operands[1:], op.results)

    def repeat(self, body: Callable[[_Walk, Touched], Touched], entered: Touched) -> Touched:
        """The accesses after a loop's body, which starts with those of earlier iterations and from before the loop."""
        start, learn = entered, _Walk(self.distinct, inserts=False)
        while not (end := body(learn, start)) <= start:
            start |= end
        return body(self, start) if self.inserts else end

    def branches(self, op: scf.IfOp, touched: Touched) -> Touched:
        after = _NOTHING
        for region in (op.true_region, op.false_region):
            end = self.block(region.block, touched) if region.blocks else touched
            yielded = terminator(region.block).operands if region.blocks else ()
            after |= _renamed(end, yielded, op.results)
        return after


def _touch_of(op: AccessOp) -> AccessKind:
    if isinstance(op, ScatterOp) and "atomic" in op.properties:
        return AccessKind.ATOMIC
    return AccessKind.WRITE if isinstance(op, WriteOp) else AccessKind.READ


def _chunks_of(op: AccessOp) -> frozenset[tuple[SSAValue, int]]:
    """Each dimension of an access whose chunk, or only element, starts at a loop's position, if steps are no less."""
    return frozenset(
        (start, dimension)
        for dimension, index in enumerate(op.index.data)
        if (start := op.offset_of(dimension)) is not None and _length(op, index) <= _step_from(start)
    )


def _length(op: AccessOp, index: IndexAttr) -> float:
    """Elements of a dimension that an index takes side by side; infinity if they are not."""
    match index.terms:
        case ():
            return 1
        case ((axis, 1),):
            return sizes_of(op.tile)[axis]
    return inf


def _step_from(start: SSAValue) -> int:
    """The step of the loop with this position; 0 for another value, or if the step is unknown."""
    loop = start.owner.parent_op() if isinstance(start, BlockArgument) and start.index == 0 else None
    return (constant_of(loop.step) or 0) if isinstance(loop, scf.ForOp) else 0


def _renamed(touched: Touched, values: Iterable[SSAValue], names: Iterable[SSAValue]) -> Touched:
    """The accesses, with memory that is passed on renamed."""
    pairs = [(v, n) for v, n in zip(values, names, strict=False) if isinstance(v.type, MemoryType)]
    handed = {v for v, _ in pairs}
    kept = {access for access in touched if access.memory not in handed}
    return frozenset(kept | {replace(access, memory=n) for v, n in pairs for access in touched if access.memory == v})
