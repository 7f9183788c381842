"""Keep what programs that follow one another would compute again: what does not depend on the fastest coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import Pure

from ..analysis.accesses import constant_of
from ..dialect import (
    AccessOp,
    BarrierOp,
    BufferOp,
    FirstOp,
    Index,
    LaunchOp,
    LoadOp,
    MappedOp,
    ReadOp,
    ScratchOp,
    ScratchType,
    StoreOp,
    arith,
    axes_of,
    element_of,
    sizes_of,
)

_CONTROL = (scf.ForOp, scf.IfOp, scf.WhileOp, scf.YieldOp, scf.ConditionOp)


@dataclass(frozen=True)
class KeepBetweenPrograms(ModulePass):
    """Run loops that do not depend on a launch's fastest coordinates in the first program of those that differ in them
    alone, and keep their results in scratchpads for the others.

    For CPUs, where a thread runs programs one after another in the same scratchpads. A tile of `dot(norm(x), w)` needs
    the norms of its rows, and the next tile of the same rows needs them again. Variants for full and for partial tiles
    compute the same where the coordinates are the same, so each finds what another one kept.
    """

    name = "keep-between-programs"
    result = "mapped IR whose programs keep what the next ones would compute again"

    def apply(self, context: Context, module: ModuleOp) -> None:
        keep_between_programs(module)


def keep_between_programs(module: ModuleOp) -> None:
    """Run the pass on every mapped kernel of a module."""
    for mapped in module.ops:
        for launch in mapped.body.block.ops if isinstance(mapped, MappedOp) else ():
            if isinstance(launch, LaunchOp):
                _in_launch(launch, None if mapped.lanes is None else mapped.lanes.data)


@dataclass
class _Group:
    """Operations of a block that run in the first program alone. `depth`: how many of the slowest coordinates they
    depend on."""

    depth: int
    ops: list[Operation] = field(default_factory=list)

    @property
    def kept(self) -> list[SSAValue]:
        """The results that the rest of the program uses."""
        inside = set(self.ops)
        return [
            value for op in self.ops for value in op.results
            if any(_top(use.operation, op.parent) not in inside for use in value.uses)
        ]  # fmt: skip

    @property
    def writes(self) -> set[SSAValue]:
        return {base for op in self.ops for base in _written(op)}

    def feeds(self, op: Operation) -> bool:
        """Whether an operation uses what these compute."""
        made, written = {value for each in self.ops for value in each.results}, self.writes
        return any(operand in made or operand in written for each in op.walk() for operand in each.operands)


def _in_launch(launch: LaunchOp, lanes: str | None) -> None:
    depths = _Depths(launch)
    blocks = list(_variants(launch.body.block, depths))
    if not any(depths.fast(depths.of(op)) for block in blocks for op in block.ops if isinstance(op, scf.ForOp)):
        return
    found = [_groups_of(block, depths) for block in blocks]
    if not found[0] or any(groups is None or _form(groups) != _form(found[0]) for groups in found):
        return
    first = launch.body.block.first_op
    memories: list[list[ScratchOp]] = []
    for group in found[0]:
        memories.append([_memory(value, lanes) for value in group.kept])
        launch.body.block.insert_ops_before(memories[-1], first) if first is not None else None
    for groups in found:
        for group, memory in zip(groups or (), memories, strict=True):
            _keep(group, memory, depths.fast(group.depth), lanes)


def _form(groups: Sequence[_Group] | None) -> list[tuple[int, list[Attribute]]]:
    return [(group.depth, [value.type for value in group.kept]) for group in groups or ()]


class _Depths:
    """How many of a launch's slowest coordinates operations depend on, also through the program's own memory."""

    def __init__(self, launch: LaunchOp):
        self.launch, self.all = launch, len(launch.body.block.args)
        self.written = {base for op in launch.body.walk() for base in _written(op)}
        self._own: dict[SSAValue, int] = {
            op.results[0]: 0 for op in launch.body.block.ops if isinstance(op, ScratchOp | BufferOp)
        }
        self._of_ops: dict[Operation, int] = {}
        while self._deepen():
            self._of_ops.clear()

    def _deepen(self) -> bool:
        """Let memory be as deep as what writes it, and say whether that changed anything."""
        before = dict(self._own)
        for block in _variants(self.launch.body.block, self):
            for op in block.ops:
                for base in _written(op) & {*self._own}:
                    self._own[base] = max(self._own[base], self.of(op))
        return before != self._own

    def fast(self, depth: int) -> list[SSAValue]:
        """The coordinates that operations of a depth do not depend on, where there is more than one program along
        them."""
        pairs = zip(self.launch.body.block.args, self.launch.grid, strict=True)
        return [argument for argument, count in list(pairs)[depth:] if constant_of(count) != 1]

    def of(self, op: Operation) -> int:
        """The depth of an operation of the launch, all that is in it included."""
        if op not in self._of_ops:
            inside = {value for each in op.walk() for value in each.results}
            inside |= {a for each in op.walk() for region in each.regions for b in region.blocks for a in b.args}
            taken = {operand for each in op.walk() for operand in each.operands} - inside
            self._of_ops[op] = max((self._of_value(value) for value in taken), default=0)
        return self._of_ops[op]

    def _of_value(self, value: SSAValue) -> int:
        if value in self._own:
            return self._own[value]
        if isinstance(value, BlockArgument):
            if value.block is self.launch.body.block:
                return value.index + 1
            return 0 if isinstance(value.block.parent_op(), MappedOp) else self.all
        owner = value.owner
        assert isinstance(owner, Operation), "no argument of a block"
        return 0 if isinstance(owner.parent_op(), MappedOp) else self.of(owner)

    def may_keep(self, op: Operation) -> bool:
        """Whether other programs may leave an operation out: it has no effect but on the program's own memory, and
        reads nothing else that the launch writes."""
        return self.of(op) < self.all and all(self._is_plain(each) for each in op.walk())

    def _is_plain(self, op: Operation) -> bool:
        if isinstance(op, StoreOp):
            return op.atomic is None and op.base in self._own
        if isinstance(op, ReadOp):
            return op.base in self._own or op.base not in self.written
        return isinstance(op, (*_CONTROL, BarrierOp)) or op.has_trait(Pure)


def _variants(block: Block, depths: _Depths) -> Iterator[Block]:
    """The blocks of the variants for full and partial tiles, of which each program runs one."""
    last = block.last_op
    if isinstance(last, scf.IfOp) and not last.results and _has_both(last) and _is_of_grid(last.cond, depths):
        for region in last.regions:
            yield from _variants(region.block, depths)
        return
    yield block


def _has_both(op: scf.IfOp) -> bool:
    """Whether a selection has a block for either case: one without an `else` has no variants."""
    return all(region.blocks for region in op.regions)


def _is_of_grid(value: SSAValue, depths: _Depths) -> bool:
    """Whether a condition is arithmetic of the coordinates and of sizes alone."""
    todo, of_coordinates = [value], False
    while todo:
        one = todo.pop()
        if isinstance(one, BlockArgument):
            if one.block is not depths.launch.body.block:
                return False
            of_coordinates = True
        elif isinstance(one.owner, Operation) and not isinstance(one.owner.parent_op(), MappedOp):
            if one.owner.name.partition(".")[0] != arith.ARITH.name:
                return False
            todo += one.owner.operands
    return of_coordinates


def _groups_of(block: Block, depths: _Depths) -> list[_Group] | None:
    """What a block computes that other programs compute, too; None where it cannot be told apart from the rest."""
    groups: list[_Group] = []
    current: _Group | None = None
    for op in block.ops:
        if depths.may_keep(op) and (isinstance(op, scf.ForOp) or _written(op) or (current and current.feeds(op))):
            depth = max([depths.of(op), *(depths._of_value(base) for base in _written(op))])
            if current is None or (current.depth != depth and not current.feeds(op)):
                groups.append(current := _Group(depth))
            current.depth = max(current.depth, depth)
            current.ops.append(op)
        elif current is not None and current.feeds(op):
            current = None
    groups = [group for group in groups if any(isinstance(op, scf.ForOp) for op in group.ops)]
    groups = [group for group in groups if depths.fast(group.depth)]
    is_whole = all(_alone(group, block) for group in groups)
    can_keep = all(isinstance(value.type, TensorType) for group in groups for value in group.kept)
    return groups if is_whole and can_keep else None


def _alone(group: _Group, block: Block) -> bool:
    """Whether nothing else writes the memory that a group writes, or reads it before the group's last operation."""
    inside, last = set(group.ops), group.ops[-1]
    before = True
    for op in block.ops:
        before = before and op is not last
        touched = {each.base for each in op.walk() if isinstance(each, AccessOp)} if before else _written(op)
        if op not in inside and touched & group.writes:
            return False
    return True


def _written(op: Operation) -> set[SSAValue]:
    """The memory that an operation writes, all that is in it included."""
    return {each.base for each in op.walk() if isinstance(each, AccessOp) and not isinstance(each, ReadOp)}


def _top(op: Operation, block: Block | None) -> Operation:
    """The operation of a block that another one is in."""
    while op.parent is not block and (parent := op.parent_op()) is not None:
        op = parent
    return op


def _dimensions(value: SSAValue, lanes: str | None) -> list[str]:
    return sorted(axes_of(value), key=lambda axis: axis == lanes)


def _memory(value: SSAValue, lanes: str | None) -> ScratchOp:
    sizes = sizes_of(value)
    shape = [sizes[axis] for axis in _dimensions(value, lanes)] or [1]
    return ScratchOp(value.name_hint or "kept", ScratchType(shape, element_of(value)))


def _index(value: SSAValue, lanes: str | None) -> list[Index]:
    return [([(axis, 1)], None) for axis in _dimensions(value, lanes)] or [([], None)]


def _keep(group: _Group, memories: Sequence[ScratchOp], fast: Sequence[SSAValue], lanes: str | None) -> None:
    """Run a group in first programs, which store what it gives; all programs load it."""
    kept, last = group.kept, group.ops[-1]
    block, after = last.parent, last.next_op
    assert block is not None, "part of a launch"
    first = FirstOp(fast)
    body, rest = Block(), Block([scf.YieldOp.create()])
    for op in group.ops:
        op.detach()  # type: ignore[no-untyped-call]
        body.add_op(op)
    body.add_ops([StoreOp(value, memory, _index(value, lanes)) for value, memory in zip(kept, memories, strict=True)])
    body.add_op(scf.YieldOp.create())
    branch = scf.IfOp.create(operands=[first.result], regions=[Region(body), Region(rest)], location=last.location)
    loads = [LoadOp(m, _index(value, lanes), value.type) for value, m in zip(kept, memories, strict=True)]
    new = [first, branch, *loads]
    block.insert_ops_before(new, after) if after is not None else block.add_ops(new)
    for value, load in zip(kept, loads, strict=True):
        load.result.name_hint = value.name_hint
        value.replace_uses_with_if(load.result, lambda use: _top(use.operation, body).parent is not body)
