"""Blocks under construction, nested like the loops they become, and the values and axes known in each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from xdsl.dialects import scf
from xdsl.dialects.builtin import LocationAttr, StringAttr, UnknownLoc, i1, i32, i64
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from ...dialect import BelowOp, BroadcastOp, MaxOp, ReloadOp, SpillOp, arith, axes_of, element_of, sizes_of, tile_type
from ...dialect.combining import combining, constant, kind_of

UNKNOWN_LOCATION = UnknownLoc()


@dataclass(frozen=True)
class Span:
    """The positions of an axis that a frame processes: `count` (None: all) of them from `base` on (None: 0)."""

    base: SSAValue | None
    count: SSAValue | None


@dataclass(frozen=True)
class Visited:
    """The first position of the first chunk to visit, and the end of the positions to visit. `firsts`: the first chunk
    of each condition, which is visited even if the condition holds nowhere."""

    first: SSAValue
    last: SSAValue
    firsts: tuple[SSAValue, ...]


@dataclass(eq=False)
class LoopFrame:
    """A block under construction, whose loop or region is added to the parent's block when it is complete.

    So operations added to a parent meanwhile run before it: work that does not need a loop's axis
    goes to the frame outside of the loop. `axis`: the axis that the frame's loop runs along. `pinned`: whether
    operations must stay in this frame, as in all frames but those of chunk loops. `written`: the copy that stores go
    to, of scratchpads with two copies. `carries`: results of scans along this frame's loop, with the value reached
    before this chunk, later after it. `visits`: what loops visit of axes. `location`: at the top level, that of the
    operation that is being mapped. `frames`: this frame and those around it, innermost first.
    """

    block: Block
    parent: LoopFrame | None = None
    axis: str | None = None
    pinned: bool = True
    values: dict[SSAValue, SSAValue] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)
    written: dict[SSAValue, SSAValue] = field(default_factory=dict)
    carries: dict[SSAValue, SSAValue] = field(default_factory=dict)
    cache: dict[object, SSAValue] = field(default_factory=dict)
    visits: dict[object, Visited] = field(default_factory=dict)
    numbers: dict[SSAValue, int] = field(default_factory=dict)
    location: LocationAttr = UNKNOWN_LOCATION

    frames: tuple[LoopFrame, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.frames = (self, *(() if self.parent is None else self.parent.frames))

    def root(self) -> LoopFrame:
        return self.frames[-1]

    def add(self, op: Operation) -> SSAValue:
        """Append an operation; its first result."""
        if isinstance(op.location, UnknownLoc):
            op.location = self.frames[-1].location
        self.block.add_op(op)
        return op.results[0]

    def make(self, kind: type[Operation], *operands: SSAValue, type_: Attribute | None = None) -> SSAValue:
        """Append an operation with one result, of the first operand's type unless given."""
        return self.add(kind.create(operands=operands, result_types=[type_ or operands[0].type]))

    def add_for(self, values: Iterable[SSAValue], made: Operation) -> None:
        """Append an operation whose results stand for values of the kernel."""
        self.block.add_op(made)
        for old, new in zip(values, made.results, strict=True):
            new.name_hint = old.name_hint
            self.values[old] = new

    def loop(
        self,
        bounds: tuple[SSAValue, SSAValue, SSAValue],
        initial: Sequence[SSAValue],
        body: Block,
        location: LocationAttr = UNKNOWN_LOCATION,
    ) -> Sequence[SSAValue]:
        """Append a loop with a complete body; its results. `bounds`: start, stop and step."""
        types = [value.type for value in initial]
        loop = scf.ForOp.create(
            operands=[*bounds, *initial], result_types=types, regions=[Region(body)], location=location
        )
        self.block.add_op(loop)
        return loop.results

    def find(self, value: SSAValue) -> SSAValue | None:
        """What stands for a value of the kernel, if this frame or one around it has it."""
        for frame in self.frames:
            if value in frame.values:
                return frame.values[value]
        return None

    def find_made(self, key: object) -> SSAValue:
        """The value cached under a key in this frame or around it."""
        return next(frame.cache[key] for frame in self.frames if key in frame.cache)

    def find_written(self, value: SSAValue) -> SSAValue | None:
        """The copy of a scratchpad that stores go to, if it has two."""
        return next((frame.written[value] for frame in self.frames if value in frame.written), None)

    def holding(self, axis: str) -> LoopFrame:
        """The frame that holds the span of an axis."""
        return next(frame for frame in self.frames if axis in frame.spans)

    def span(self, axis: str) -> Span:
        return self.holding(axis).spans[axis]

    # Scalars of i64.

    def number(self, value: int) -> SSAValue:
        """An i64 constant, at the mapped kernel's top level."""
        root = self.root()
        key = ("number", value)
        if key not in root.cache:
            root.cache[key] = root.add(constant(i64, value))
            root.numbers[root.cache[key]] = value
        return root.cache[key]

    def known(self, value: SSAValue) -> int | None:
        """The value of an i64 constant that `number` made; None for other values."""
        return self.root().numbers.get(value)

    def combined(self, kind: type[Operation], left: SSAValue, right: SSAValue) -> SSAValue:
        """A binary i64 operation, folded if both operands are constants, shared within the frame."""
        one, other = self.known(left), self.known(right)
        if other is not None:
            if one is not None:
                return self.number(_FOLD[kind](one, other))
            if other == _RIGHT_IDENTITY.get(kind):
                return left
        key = (kind, left, right)
        if key not in self.cache:
            self.cache[key] = self.make(kind, left, right)
        return self.cache[key]


_FOLD: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.CeilDivSIOp: lambda a, b: -(-a // b),
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
}
_RIGHT_IDENTITY = {
    arith.AddiOp: 0,
    arith.SubiOp: 0,
    arith.MuliOp: 1,
    arith.FloorDivSIOp: 1,
    arith.CeilDivSIOp: 1,
}


def filled(frame: LoopFrame, type_: Attribute, value: float) -> SSAValue:
    """A tile or scalar of one constant, shared by all of a launch: it goes to the frame just inside the top level."""
    at = frame.frames[-2:][0]
    key = ("filled", type_, repr(value))
    if (found := at.cache.get(key)) is None:
        found = at.cache[key] = at.add(constant(type_, value))
    return found


def broadcast(frame: LoopFrame, value: SSAValue, type_: Attribute) -> SSAValue:
    """A value with the axes of `type_`; itself where it has them already."""
    return value if value.type == type_ else frame.make(BroadcastOp, value, type_=type_)


def broadcast_mask(frame: LoopFrame, mask: SSAValue, like: Attribute) -> SSAValue:
    """A mask with the axes of a tile."""
    return broadcast(frame, mask, tile_type(i1, axes_of(like), sizes_of(like).values()))


def below(frame: LoopFrame, axis: str, size: int, like: Attribute) -> SSAValue | None:
    """Which elements of a tile like `like` are in range along `axis`; None if all are."""
    at = frame.holding(axis)
    count = at.spans[axis].count
    if count is None:
        return None
    key = ("below", axis)
    if key not in at.cache:
        op = BelowOp.create(
            operands=[count], properties={"axis": StringAttr(axis)}, result_types=[tile_type(i1, [axis], [size])]
        )
        at.cache[key] = at.add(op)
    wide = tile_type(i1, axes_of(like), sizes_of(like).values())
    if (found := at.cache.get(("below", axis, wide))) is None:
        found = at.cache["below", axis, wide] = broadcast(at, at.cache[key], wide)
    return found


def select(frame: LoopFrame, mask: SSAValue, one: SSAValue, other: SSAValue) -> SSAValue:
    return frame.make(arith.SelectOp, mask, one, other, type_=one.type)


def is_anywhere(frame: LoopFrame, mask: SSAValue) -> SSAValue:
    """Whether a mask holds anywhere: a scalar."""
    if axes := axes_of(mask):
        mask = frame.make(arith.ExtUIOp, mask, type_=tile_type(i32, axes, sizes_of(mask).values()))
        for axis in axes:
            mask = frame.add(MaxOp(mask, axis))
        mask = frame.add(arith.CmpiOp(mask, frame.add(constant(i32, 0)), "ne"))
    return mask


def put_aside(frame: LoopFrame, tiles: Sequence[SSAValue]) -> Callable[[], list[SSAValue]]:
    """Keep tiles out of registers until the function that is returned gives them again, in the same frame."""
    spills = [SpillOp(tile) for tile in tiles]
    for spill in spills:
        frame.add(spill)
    return lambda: [frame.add(ReloadOp(spill.spilled)) for spill in spills]


def conditional(
    frame: LoopFrame, test: SSAValue, inner: LoopFrame, made: Sequence[SSAValue], otherwise: Sequence[SSAValue]
) -> list[SSAValue]:
    """Append the conditional that runs a complete inner frame; the values `made` there, or the others.

    What filling the inner frame added to this one comes before the conditional.
    """
    inner.block.add_op(scf.YieldOp.create(operands=made))
    other = Region(Block([scf.YieldOp.create(operands=otherwise)])) if otherwise else Region()
    branch = scf.IfOp.create(
        operands=[test],
        result_types=[value.type for value in otherwise],
        regions=[Region(inner.block), other],
        location=frame.root().location,
    )
    frame.block.add_op(branch)
    return list(branch.results)


def masked(frame: LoopFrame, mask: SSAValue | None, value: SSAValue, other: float) -> SSAValue:
    """A value where a mask holds (None: everywhere), and a constant elsewhere."""
    return value if mask is None else select(frame, mask, value, filled(frame, value.type, other))


def joined(frame: LoopFrame, masks: Iterable[SSAValue]) -> SSAValue:
    """Masks, at least one, joined by `and`."""
    return reduce(lambda one, other: frame.make(arith.AndIOp, one, other), masks)


def both(frame: LoopFrame, masks: Sequence[SSAValue | None]) -> SSAValue | None:
    """Masks joined by `and`, None standing for true."""
    present = [mask for mask in masks if mask is not None]
    return joined(frame, present) if present else None


def combine(frame: LoopFrame, op: Operation, left: SSAValue, right: SSAValue) -> SSAValue:
    """Two tiles or scalars combined elementwise like by a reduction or scan."""
    made = combining(kind_of(op), element_of(left))
    return frame.add(made.create(operands=[left, right], result_types=[left.type], location=op.location))
