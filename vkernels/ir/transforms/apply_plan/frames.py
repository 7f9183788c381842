"""Blocks under construction, nested as the loops will be, and the values and axes known in each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    LocationAttr,
    StringAttr,
    TensorType,
    UnknownLoc,
    i64,
)
from xdsl.ir import Attribute, Block, Operation, SSAValue

from ...dialect import BelowOp, BroadcastOp, arith, axes_of, element_of, sizes_of, tile_type

UNKNOWN_LOCATION = UnknownLoc()


@dataclass(frozen=True)
class Span:
    """The positions of an axis that a frame holds: from `base` on (None: 0), the first `count` of them (None: all)."""

    base: SSAValue | None
    count: SSAValue | None


@dataclass(eq=False)
class LoopFrame:
    """A block being filled, whose loop or region joins the parent's block only when it is complete.

    So whatever is added to a parent meanwhile runs before: work that does not need a loop's axis
    goes to the frame outside of the loop. `axis` names the axis that the frame's loop runs
    along. `constants` is where constants go.
    """

    block: Block
    parent: LoopFrame | None = None
    axis: str | None = None
    pinned: bool = True
    """Whether operations must stay in this frame: all frames but those of chunk loops."""
    values: dict[SSAValue, SSAValue] = field(default_factory=dict)
    spans: dict[str, Span] = field(default_factory=dict)
    written: dict[SSAValue, SSAValue] = field(default_factory=dict)
    """Scratchpads with two copies: the one that is written."""
    carries: dict[Operation, SSAValue] = field(default_factory=dict)
    """Scans that run along this frame's loop: the value reached, first before and then after this chunk."""
    cache: dict[object, SSAValue] = field(default_factory=dict)
    numbers: dict[SSAValue, int] = field(default_factory=dict)
    location: LocationAttr = UNKNOWN_LOCATION
    """At the top level: of the operation that is being mapped."""

    def add(self, op: Operation) -> SSAValue:
        """Append an operation; its first result."""
        if isinstance(op.location, UnknownLoc):
            op.location = self.root().location
        self.block.add_op(op)
        return op.results[0]

    def find(self, value: SSAValue) -> SSAValue | None:
        """What stands for a value of the kernel here, if it has been made in this frame or around it."""
        frame: LoopFrame | None = self
        while frame is not None:
            if (found := frame.values.get(value)) is not None:
                return found
            frame = frame.parent
        return None

    def find_made(self, key: object) -> SSAValue | None:
        """What is cached under a key in this frame or around it."""
        frame: LoopFrame | None = self
        while frame is not None:
            if (found := frame.cache.get(key)) is not None:
                return found
            frame = frame.parent
        return None

    def find_written(self, value: SSAValue) -> SSAValue | None:
        """The copy of a scratchpad that stores go to, where it has two."""
        frame: LoopFrame | None = self
        while frame is not None:
            if (found := frame.written.get(value)) is not None:
                return found
            frame = frame.parent
        return None

    def span(self, axis: str) -> Span:
        frame: LoopFrame | None = self
        while frame is not None:
            if (found := frame.spans.get(axis)) is not None:
                return found
            frame = frame.parent
        raise KeyError(axis)

    def holding(self, axis: str) -> LoopFrame:
        """The frame that holds the span of an axis."""
        frame: LoopFrame | None = self
        while frame is not None:
            if axis in frame.spans:
                return frame
            frame = frame.parent
        raise KeyError(axis)

    def root(self) -> LoopFrame:
        frame = self
        while frame.parent is not None:
            frame = frame.parent
        return frame

    # Scalars of i64.

    def number(self, value: int) -> SSAValue:
        """An i64 constant, at the mapped kernel's top level."""
        root = self.root()
        found = root.cache.get(("number", value))
        if found is None:
            found = root.cache["number", value] = root.add(
                arith.ConstantOp.create(properties={"value": IntegerAttr(value, i64)}, result_types=[i64])
            )
            root.numbers[found] = value
        return found

    def known(self, value: SSAValue) -> int | None:
        """The number that an i64 is, if `number` made it."""
        return self.root().numbers.get(value)

    def plus(self, left: SSAValue | None, right: SSAValue | None) -> SSAValue | None:
        """The sum of two scalars, None standing for 0."""
        if left is None or right is None:
            return left if right is None else right
        return self.combined(arith.AddiOp, left, right)

    def combined(self, kind: type[Operation], left: SSAValue, right: SSAValue) -> SSAValue:
        """A binary i64 operation, folded where both operands are constants, shared within the frame."""
        one, other = self.known(left), self.known(right)
        if other is not None:
            if one is not None:
                return self.number(_FOLD[kind](one, other))
            if other == _RIGHT_IDENTITY.get(kind):
                return left
        key = (kind, left, right)
        found = self.cache.get(key)
        if found is None:
            found = self.cache[key] = self.add(kind.create(operands=[left, right], result_types=[i64]))
        return found


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
    while frame.parent is not None and frame.parent.parent is not None:
        frame = frame.parent
    key = ("filled", type_, repr(value))
    found = frame.cache.get(key)
    if found is None:
        element = element_of(type_)
        attribute: Attribute
        if isinstance(type_, TensorType):
            attribute = DenseIntOrFPElementsAttr.from_list(type_, [value])
        elif isinstance(element, IntegerType):
            attribute = IntegerAttr(int(value), element)
        else:
            attribute = FloatAttr(value, cast(AnyFloat, element))
        found = frame.add(arith.ConstantOp.create(properties={"value": attribute}, result_types=[type_]))
        frame.cache[key] = found
    return found


def broadcast(frame: LoopFrame, value: SSAValue, type_: Attribute) -> SSAValue:
    """A value with the axes of `type_`; itself where it has them already."""
    if value.type == type_:
        return value
    return frame.add(BroadcastOp.create(operands=[value], result_types=[type_]))


def below(frame: LoopFrame, axis: str, size: int, like: Attribute) -> SSAValue | None:
    """Which elements of a tile like `like` are at positions that count along `axis`; None where all do."""
    count = frame.span(axis).count
    if count is None:
        return None
    at = frame.holding(axis)
    key = ("below", axis)
    mask = at.cache.get(key)
    if mask is None:
        type_ = tile_type(_I1, [axis], [size])
        op = BelowOp.create(operands=[count], properties={"axis": StringAttr(axis)}, result_types=[type_])
        mask = at.cache[key] = at.add(op)
    wanted = tile_type(_I1, axes_of(like), sizes_of(like).values())
    key_ = ("below", axis, wanted)
    found = at.cache.get(key_)
    if found is None:
        found = at.cache[key_] = broadcast(at, mask, wanted)
    return found


_I1 = IntegerType(1)


def select(frame: LoopFrame, mask: SSAValue, one: SSAValue, other: SSAValue) -> SSAValue:
    return frame.add(arith.SelectOp.create(operands=[mask, one, other], result_types=[one.type]))


def both(frame: LoopFrame, masks: Sequence[SSAValue | None]) -> SSAValue | None:
    """Masks joined by `and`, None standing for true."""
    result: SSAValue | None = None
    for mask in masks:
        if mask is not None:
            result = (
                mask
                if result is None
                else frame.add(arith.AndIOp.create(operands=[result, mask], result_types=[mask.type]))
            )
    return result
