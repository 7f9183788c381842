"""Write a loop of gathered sums again, for vectors of lanes and blocks of positions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    TensorType,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...analysis.accesses import constant_of, is_inside
from ...dialect import (
    BroadcastOp,
    GatherOp,
    Index,
    InterleaveOp,
    LoadOp,
    PositionOp,
    SumOp,
    arith,
    axes_of,
    element_of,
    sizes_of,
    tile_type,
)
from ...dialect.blocks import terminator
from .find import GatherSum


def vectorise(found: GatherSum) -> None:
    """Replace the loop by one over whole blocks, and itself for the positions that are left."""
    loop, parent, before = found.loop, found.loop.parent, Block()
    assert parent is not None
    end, is_all = _end_of_blocks(found, before)
    sums = _Writer(found, before).loop_until(end)
    kinds = [operand.owner for operand in terminator(loop.body.block).operands]
    parts = zip(kinds, loop.iter_args, sums, strict=True)
    starts = [_add(before, _sum_like(kind, start, total)) for kind, start, total in parts]
    ops = [before.detach_op(op) for op in list(before.ops)]
    for op in ops:
        op.location = loop.location
    parent.insert_ops_before(ops, loop)
    if not is_all:
        loop.operands = [end, *loop.operands[1:3], *starts]
        return
    for result, start in zip(loop.results, starts, strict=True):
        start.name_hint = result.name_hint
        result.replace_all_uses_with(start)
    parent.detach_op(loop).erase()


def _end_of_blocks(found: GatherSum, before: Block) -> tuple[SSAValue, bool]:
    """The position after the last whole block, and whether that is the end of the loop."""
    loop, first, last = found.loop, constant_of(found.loop.lb), constant_of(found.loop.ub)
    if found.block == 1 or (first is not None and last is not None and (last - first) % found.block == 0):
        return loop.ub, True
    size = _constant(before, found.block)
    blocks = _add(before, arith.DivSIOp(_add(before, arith.SubiOp(loop.ub, loop.lb)), size))
    return _add(before, arith.AddiOp(loop.lb, _add(before, arith.MuliOp(blocks, size)))), False


@dataclass
class _Writer:
    """Writes the loop in `block`. Values of the old body are written once, those along the lanes once for each part
    of them: part p of n has lanes p, n + p, 2 n + p and so on.

    `sizes`: of the new tiles' axes, in their order. `along`: the axis of a block's positions, if it has several.
    """

    found: GatherSum
    block: Block
    sizes: dict[str, int] = field(init=False)
    along: str | None = field(init=False)
    made: dict[tuple[SSAValue, int], SSAValue] = field(default_factory=dict)

    def __post_init__(self) -> None:
        found, lanes = self.found, self.found.lanes
        rows = {axis: size for axis, size in found.sizes.items() if axis != lanes}
        self.along = _free_name(found.position.name_hint or "k", found.sizes) if found.block > 1 else None
        block = {} if self.along is None else {self.along: found.block}
        self.sizes = {lanes: found.sizes[lanes] // found.vector, **rows, **block}

    def loop_until(self, end: SSAValue) -> list[SSAValue]:
        """The new loop, up to a position; the sums, with the axes of the old ones."""
        found, loop, before = self.found, self.found.loop, self.block
        types = [self._type(element_of(result), self.sizes) for result in loop.results for _ in range(found.vector)]
        zeros = [_zeros(before, type_) for type_ in types]
        step = _constant(before, found.block)
        self.block = self._body(Block(arg_types=[i64, *types]))
        made = scf.ForOp(loop.lb, end, step, zeros, self.block)
        self.block = before
        _add(before, made)
        starts = range(0, len(made.results), found.vector)
        parts = [made.results[start : start + found.vector] for start in starts]
        return [self._joined(each, old) for each, old in zip(parts, loop.results, strict=True)]

    def _body(self, body: Block) -> Block:
        found, (position, *carried) = self.found, body.args
        self.block, position.name_hint = body, found.position.name_hint
        self.made[found.position, 0] = self._positions(position)
        handed: list[SSAValue] = []
        for added, old in zip(found.added, terminator(found.loop.body.block).operands, strict=True):
            for part in range(found.vector):
                value = self._repeated(self.value(added, part), self.sizes)
                handed.append(_add(body, _sum_like(old.owner, carried[len(handed)], value)))
        body.add_op(scf.YieldOp(*handed))
        for op in body.ops:
            op.location = found.loop.location
        return body

    def _positions(self, first: SSAValue) -> SSAValue:
        """The positions of a block: a tile, or the one position."""
        if self.along is None:
            return first
        places = _add(self.block, PositionOp(self.along, self.found.block))
        return _add(self.block, arith.AddiOp(self._repeated(first, (self.along,)), places))

    def _joined(self, parts: Sequence[SSAValue], old: SSAValue) -> SSAValue:
        """The parts of a sum as one tile with the axes of the old one."""
        order = [axis for axis in axes_of(old) if axis != self.found.lanes] + [self.found.lanes]
        tiles = [part if self.along is None else _add(self.block, SumOp(part, self.along)) for part in parts]
        tiles = [self._ordered(tile, order) for tile in tiles]
        joined = _add(self.block, InterleaveOp(tiles)) if len(tiles) > 1 else tiles[0]
        return self._ordered(joined, axes_of(old))

    def _ordered(self, tile: SSAValue, order: Sequence[str]) -> SSAValue:
        if axes_of(tile) == tuple(order):
            return tile
        sizes = sizes_of(tile)
        type_ = tile_type(element_of(tile), order, [sizes[axis] for axis in order])
        return _add(self.block, BroadcastOp(tile, type_))

    # Values

    def value(self, old: SSAValue, part: int) -> SSAValue:
        """The value in the new body; along the lanes, a part of it. It lacks the axes along which it is the same."""
        if not is_inside(old, self.found.loop):
            return old
        key = old, part if self.found.lanes in axes_of(old) else 0
        if key not in self.made:
            assert isinstance(old.owner, Operation), "the position is there, and what is carried is only added to"
            self.made[key] = self._written(old.owner, part)
        return self.made[key]

    def _written(self, op: Operation, part: int) -> SSAValue:
        if isinstance(op, BroadcastOp):
            return self.value(op.source, part)
        if isinstance(op, LoadOp | GatherOp):
            return self._read(op, part)
        if isinstance(op, arith.ConstantOp):
            return _add(self.block, _scalar_constant(op))
        operands = [self.value(operand, part) for operand in op.operands]
        axes = self._ordered_axes(axis for operand in operands for axis in axes_of(operand))
        operands = [self._repeated(operand, axes) for operand in operands]
        types = [self._type(element_of(op.results[0]), axes)]
        made = type(op).create(
            operands=operands, result_types=types, properties=op.properties, attributes=op.attributes
        )
        return _add(self.block, made)

    def _read(self, op: LoadOp | GatherOp, part: int) -> SSAValue:
        """A read of a block: of a part of the lanes, or, where positions lie side by side, by every thread that uses
        it."""
        index = [self._index(op, number, part) for number in range(len(op.index))]
        along = {axis for terms, _ in index for axis, _ in terms}
        along.update(axis for _, offset in index if offset is not None for axis in axes_of(offset))
        type_ = self._type(element_of(op.result), self.sizes if op in self.found.wide else self._ordered_axes(along))
        is_gather = any(offset is not None and isinstance(offset.type, TensorType) for _, offset in index)
        kind = GatherOp if is_gather else LoadOp
        return _add(self.block, kind(op.base, index, type_, bounds=op.bounds, guarded=op.guarded_dimensions))

    def _index(self, op: LoadOp | GatherOp, number: int, part: int) -> Index:
        found, terms, offset = self.found, op.index.data[number].terms, op.offset_of(number)
        if found.lanes in dict(terms) and found.vector > 1:
            return ((found.lanes, found.vector),), (_constant(self.block, part) if part else None)
        if offset is found.position and self.along is not None:
            return (*terms, (self.along, 1)), self.block.args[0]
        return terms, None if offset is None else self.value(offset, part)

    # Tiles

    def _ordered_axes(self, axes: Iterable[str]) -> tuple[str, ...]:
        wanted = set(axes)
        return tuple(axis for axis in self.sizes if axis in wanted)

    def _type(self, element: Attribute, axes: Iterable[str]) -> Attribute:
        axes = tuple(axes)
        return tile_type(element, axes, [self.sizes[axis] for axis in axes])

    def _repeated(self, value: SSAValue, axes: Iterable[str]) -> SSAValue:
        """A value at all positions of some axes, in the order of the new tiles."""
        axes = tuple(axes)
        if axes_of(value) == axes:
            return value
        return _add(self.block, BroadcastOp(value, self._type(element_of(value), axes)))


def _add(block: Block, op: Operation) -> SSAValue:
    """The first result of an operation, which is put at the end of a block."""
    block.add_op(op)
    return op.results[0]


def _sum_like(op: object, left: SSAValue, right: SSAValue) -> Operation:
    """A sum of floats or of integers, as another is."""
    return arith.AddfOp(left, right) if isinstance(op, arith.AddfOp) else arith.AddiOp(left, right)


def _constant(block: Block, number: int) -> SSAValue:
    return _add(block, arith.ConstantOp(IntegerAttr(number, i64)))


def _zeros(block: Block, type_: Attribute) -> SSAValue:
    return _add(block, BroadcastOp(_add(block, arith.ConstantOp(_number(0, element_of(type_)))), type_))


def _scalar_constant(op: arith.ConstantOp) -> arith.ConstantOp:
    """The constant of all elements of a tile of constants."""
    if isinstance(op.value, DenseIntOrFPElementsAttr):
        return arith.ConstantOp(_number(op.value.get_values()[0], element_of(op.result)))
    return arith.ConstantOp(op.value)


def _number(number: float, element: Attribute) -> IntegerAttr | FloatAttr:
    if isinstance(element, AnyFloat):
        return FloatAttr(float(number), element)
    assert isinstance(element, IntegerType | IndexType), "elements are numbers"
    return IntegerAttr(int(number), element)


def _free_name(wanted: str, taken: Iterable[str]) -> str:
    while wanted in taken:
        wanted += "_"
    return wanted
