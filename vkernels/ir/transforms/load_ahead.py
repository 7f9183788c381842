"""Load what sequential loops read some iterations ahead, so that an iteration does not wait for its own loads."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass

from ..analysis.accesses import constant_of, is_inside
from ..dialect import (
    AccessOp,
    DotOp,
    LaunchOp,
    LoadOp,
    MappedOp,
    ScaledDotOp,
    TensorArgumentType,
    WriteOp,
    arith,
)
from ..dialect.blocks import terminator
from ..facts import Facts


@dataclass(frozen=True)
class LoadAhead(ModulePass):
    """Load tensors so many `iterations` before the iteration of a loop that uses them; 0 changes nothing.

    Of loops over single positions, without dots, whose loads compilers pipeline themselves. Ahead are loads that depend
    on nothing that the loop carries or loads, of tensors that nothing in the launch writes; those that do not depend on
    the position either are made before the loop. The loop carries what is loaded; beyond the last position, that is
    loaded again. Relies on barriers being there: they need not order loads of what nobody writes.
    """

    name = "load-ahead"
    result = "mapped IR with loads some iterations before their use"

    iterations: int = 1

    def apply(self, context: Context, module: ModuleOp) -> None:
        for mapped in module.ops if self.iterations > 0 else ():
            if isinstance(mapped, MappedOp):
                distinct = Facts.from_attribute(mapped.facts).distinct
                for launch in mapped.body.block.ops:
                    if isinstance(launch, LaunchOp):
                        _in_launch(launch, distinct, self.iterations)


def _in_launch(launch: LaunchOp, distinct: bool, iterations: int) -> None:
    writes = {_key(op.base, distinct) for op in launch.body.walk() if isinstance(op, WriteOp)}
    for loop in reversed([op for op in launch.body.walk() if isinstance(op, scf.ForOp)]):
        if constant_of(loop.step) == 1 and not any(isinstance(op, DotOp | ScaledDotOp) for op in loop.body.walk()):
            loads = [load for load in _candidates(loop) if _key(load.base, distinct) not in writes]
            if loads:
                _load_ahead(loop, loads, iterations)


def _key(base: SSAValue, distinct: bool) -> Hashable:
    """The same key for memory that may overlap: tensors of one type may be the same tensor."""
    return base.type if isinstance(base.type, TensorArgumentType) and not distinct else base


def _candidates(loop: scf.ForOp) -> Iterator[LoadOp]:
    for op in loop.body.block.ops:
        if isinstance(op, LoadOp) and isinstance(op.base.type, TensorArgumentType) and _slice(loop, op) is not None:
            yield op


def _slice(loop: scf.ForOp, load: LoadOp) -> list[Operation] | None:
    """The load and what the body computes for it, in order; None if that depends on what the loop carries or loads."""
    block, found, todo = loop.body.block, set[Operation](), [load.operands]
    while todo:
        for value in todo.pop():
            owner = value.owner
            if not is_inside(value, loop) or value is block.args[0] or owner in found:
                continue
            if isinstance(owner, Block) or owner.parent is not block or owner.regions or isinstance(owner, AccessOp):
                return None
            found.add(owner)
            todo.append(owner.operands)
    return [op for op in block.ops if op in found or op is load]


def _load_ahead(loop: scf.ForOp, loads: Sequence[LoadOp], iterations: int) -> None:
    """Replace a loop by one that loads ahead, if it has any iteration."""
    slices = [part for load in loads if (part := _slice(loop, load)) is not None]
    position = loop.body.block.args[0]
    moving = [part for part in slices if any(position in op.operands for op in part)]
    first = Block()
    for part in slices:
        if part not in moving:  # the same in all iterations
            part[-1].results[0].replace_all_uses_with(_copied(part, first, {}))
            _erase(part[-1])
    ahead = _Ahead(loop, first, iterations)
    results = ahead.replaced(moving)
    first.add_op(scf.YieldOp(*results))
    # The operations are the same where the loop has no iteration; they must not load then.
    some = arith.CmpiOp(loop.lb, loop.ub, "slt")
    otherwise = Block([scf.YieldOp(*loop.iter_args)])
    chosen = scf.IfOp(some, [value.type for value in results], Region(first), Region(otherwise))
    chosen.location = loop.location
    block = loop.parent
    assert block is not None
    block.insert_ops_before([some, chosen], loop)
    for old, new in zip(loop.results, chosen.results, strict=True):
        new.name_hint = old.name_hint
        old.replace_all_uses_with(new)
    _erase(loop)


@dataclass(frozen=True)
class _Ahead:
    """A loop that is written again in `first`, with loads of `iterations` iterations in flight."""

    loop: scf.ForOp
    first: Block
    iterations: int

    def replaced(self, slices: Sequence[Sequence[Operation]]) -> list[SSAValue]:
        """The results of the loop, written again with the last operation of each slice ahead."""
        loop, old, ahead = self.loop, self.loop.body.block, self.iterations
        last = self._last()
        loaded: list[SSAValue] = []
        for part in slices:
            for number in range(ahead):
                position = self._moved(self.first, loop.lb, number, last)
                loaded.append(_copied(part, self.first, {old.args[0]: position}))
        body = Block(arg_types=[*old.arg_types, *(value.type for value in loaded)])
        for mine, theirs in zip(body.args, old.args, strict=False):
            mine.name_hint = theirs.name_hint
        carried = body.args[len(old.args) :]
        position = self._moved(body, body.args[0], ahead, last) if slices else body.args[0]
        handed: list[SSAValue] = []
        for number, part in enumerate(slices):
            here = carried[number * ahead : (number + 1) * ahead]
            handed += [*here[1:], _copied(part, body, {old.args[0]: position})]
            part[-1].results[0].replace_all_uses_with(here[0])
        for part in slices:
            _erase(part[-1])
        for before, after in zip(old.args, body.args, strict=False):
            before.replace_all_uses_with(after)
        for op in [*old.ops]:
            body.add_op(old.detach_op(op))
        end = terminator(body)
        body.insert_op_before(scf.YieldOp(*end.operands, *handed), end)
        _erase(end)
        made = scf.ForOp(loop.lb, loop.ub, loop.step, [*loop.iter_args, *loaded], body)
        made.location = loop.location
        self.first.add_op(made)
        return list(made.results[: len(loop.results)])

    def _last(self) -> SSAValue:
        """The last position."""
        one = arith.ConstantOp(IntegerAttr(1, i64))
        last = arith.SubiOp(self.loop.ub, one.result)
        self.first.add_ops([one, last])
        return last.result

    def _moved(self, block: Block, position: SSAValue, steps: int, last: SSAValue) -> SSAValue:
        """A position so many steps after another, or the last one."""
        if steps == 0:
            return position
        number = arith.ConstantOp(IntegerAttr(steps, i64))
        later = arith.AddiOp(position, number.result)
        within = arith.MinSIOp(later.result, last)
        block.add_ops([number, later, within])
        return within.result


def _copied(part: Sequence[Operation], block: Block, values: dict[SSAValue, SSAValue]) -> SSAValue:
    """Append copies of operations to a block, with other values in place of some; the result of the last one."""
    mapper = dict(values)
    for op in part:
        block.add_op(op.clone(mapper))
    return mapper[part[-1].results[0]]


def _erase(op: Operation) -> None:
    block = op.parent
    assert block is not None
    block.detach_op(op).erase()
