"""Accesses whose index tiles are piecewise linear, and what stands for them in a version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from xdsl.builder import Builder
from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from ...analysis.piecewise import Expression, piecewise, scalars_of, slope_of
from ...dialect import (
    AccessOp,
    BelowOp,
    BroadcastOp,
    GatherOp,
    Index,
    LoadOp,
    ScatterOp,
    StoreOp,
    arith,
    axes_of,
    element_of,
    sizes_of,
    tile_type,
)
from ...dialect.combining import constant
from .candidate import Candidate, Version, replace_access
from .pieces import Pieces, pieces_of
from .scalars import Scalar, Scalars, Truth

MOST_PIECES = 4
"""Pieces of a chunk that are loaded one by one: more would cost more than a gather."""


@dataclass(frozen=True, eq=False)
class PiecewiseAccess(Candidate):
    """A gather or scatter along the lanes. `dimension`: the one whose index tile is the `expression`."""

    lanes: str
    dimension: int
    expression: Expression

    @property
    def size(self) -> int:
        """Positions along the lanes."""
        return sizes_of(self.op.tile)[self.lanes]

    @property
    def tiles(self) -> list[SSAValue]:
        offset = self.op.offset_of(self.dimension)
        return [] if offset is None else [offset]

    @property
    def scalars(self) -> list[SSAValue]:
        return [*scalars_of(self.expression), *(count for axis, count in self.op.bounds.items() if axis == self.lanes)]

    def version(self, scalars: Scalars) -> Version | None:
        return _version_of(self, scalars)

    def count(self, scalars: Scalars) -> Scalar:
        """Positions along the lanes that are active."""
        bound = self.op.bounds.get(self.lanes)
        return self.size if bound is None else scalars.least(scalars.known(bound), self.size)


def piecewise_access(op: Operation, lanes: str) -> PiecewiseAccess | None:
    """An access that can have versions; None for others."""
    if not isinstance(op, GatherOp | ScatterOp) or (isinstance(op, ScatterOp) and op.atomic is not None):
        return None
    tiles = [d for d in range(len(op.index)) if (offset := op.offset_of(d)) is not None and lanes in axes_of(offset)]
    if len(tiles) != 1 or any(axis == lanes for index in op.index for axis, _ in index.terms):
        return None
    offset = op.offset_of(tiles[0])
    expression = None if offset is None else piecewise(offset, lanes)
    if expression is None or abs(slope := slope_of(expression)) > 1:
        return None
    if slope == 0 and (isinstance(op, ScatterOp) or op.mask is not None):
        return None
    return PiecewiseAccess(op, lanes, tiles[0], expression)


@dataclass(frozen=True, eq=False)
class _InPieces(Version):
    """How a piecewise linear access is made: `straight` where all of its active positions lie in one main piece, at
    `base` + slope * position; `split` where each lies in some piece, of which there are few."""

    access: PiecewiseAccess
    pieces: Pieces
    base: Scalar
    count: Scalar

    def make_straight(self, op: AccessOp, scalars: Scalars) -> None:
        builder, base = Builder(InsertPoint.before(op)), scalars.value(self.base)
        if self.pieces.slope:
            made = _accessed(self, op, builder, base, self.pieces.slope, op.mask)
        else:
            made = _repeated(self, op, builder, base, None)
        replace_access(op, made)

    def make_split(self, op: AccessOp, scalars: Scalars) -> None:
        _make_split(self, op, scalars)


def _version_of(access: PiecewiseAccess, scalars: Scalars) -> _InPieces | None:
    count = access.count(scalars)
    found = pieces_of(access.expression, scalars, count)
    if found is None:
        return None
    straight: Truth = False
    base: Scalar | None = None
    ends: list[Scalar | None] = [*(piece.start for piece in found.pieces[1:]), None]
    for piece, end in zip(found.pieces, ends, strict=True):
        if piece.main and piece.slope == found.slope:
            covers = scalars.is_at_least(0, piece.start)
            covers = covers if end is None else scalars.both(covers, scalars.is_at_least(end, count))
            straight = scalars.either(straight, covers)
            base = piece.base if base is None else scalars.choose(covers, piece.base, base)
    assert base is not None, "a piece is the main one"
    if not found.slope:  # all positions load one element, also those that should load 0
        straight = scalars.both(straight, scalars.is_at_least(count, access.size))
    split = found.valid if _splits(access.op, found) else None
    return _InPieces(access.op, scalars.both(found.valid, straight), split, access, found, base, count)


def _splits(op: AccessOp, found: Pieces) -> bool:
    """Whether pieces can be accessed one by one."""
    pieces = found.pieces
    moves = all(piece.slope for piece in pieces) or (isinstance(op, GatherOp) and op.mask is None)
    return 1 < len(pieces) <= MOST_PIECES and moves and all(abs(piece.slope) <= 1 for piece in pieces)


def _make_split(version: _InPieces, op: AccessOp, scalars: Scalars) -> None:
    """Replace a copy of the access by one for each piece, under masks."""
    builder = Builder(InsertPoint.before(op))
    pieces = version.pieces.pieces
    lanes, size = version.access.lanes, version.access.size
    reached = [builder.insert(BelowOp(lanes, scalars.value(piece.start), size)).result for piece in pieces[1:]]
    total: SSAValue | None = None
    for number, piece in enumerate(pieces):
        inside = [] if number == 0 else [_not(builder, reached[number - 1])]
        inside += reached[number : number + 1]
        mask = _like(builder, reduce(lambda a, b: builder.insert(arith.AndIOp(a, b)).result, inside), op.tile.type)
        base = scalars.value(piece.base)
        if piece.slope:
            active = mask if op.mask is None else builder.insert(arith.AndIOp(mask, op.mask)).result
            found = _accessed(version, op, builder, base, piece.slope, active)
        else:
            end = pieces[number + 1].start if number + 1 < len(pieces) else size
            last = scalars.subtract(scalars.least(end, version.count), 1)
            found = _repeated(version, op, builder, base, scalars.is_at_least(last, scalars.most(piece.start, 0)))
        if found is not None:
            total = found if total is None else builder.insert(arith.SelectOp(mask, found, total)).result
    replace_access(op, total)


def _accessed(
    version: _InPieces, op: AccessOp, builder: Builder, base: SSAValue, slope: int, mask: SSAValue | None
) -> SSAValue | None:
    """Insert a load or store at base + slope * position; what is loaded."""
    index = _index(version, op, base, slope)
    bounds, guarded = op.bounds, op.guarded_dimensions
    if isinstance(op, GatherOp):
        load = GatherOp if _has_tiles(index) else LoadOp
        return builder.insert(load(op.base, index, op.tile.type, bounds=bounds, mask=mask, guarded=guarded)).result
    assert isinstance(op, ScatterOp)
    store = ScatterOp if _has_tiles(index) else StoreOp
    made = store(op.value, op.base, index, bounds=bounds, mask=mask, guarded=guarded)
    if op.streaming is not None:
        made.streaming = op.streaming
    builder.insert(made)
    return None


def _repeated(version: _InPieces, op: AccessOp, builder: Builder, base: SSAValue, test: Truth | None) -> SSAValue:
    """Insert a load, if a test holds, of what all positions along the lanes have in common."""
    lanes = version.access.lanes
    sizes = {axis: size for axis, size in sizes_of(op.tile).items() if axis != lanes}
    type_ = tile_type(element_of(op.tile), tuple(sizes), tuple(sizes.values()))
    bounds = {axis: count for axis, count in op.bounds.items() if axis != lanes}
    index = _index(version, op, base, 0)
    kind = GatherOp if _has_tiles(index) else LoadOp
    mask = None
    if test is not None:
        held = test if isinstance(test, SSAValue) else builder.insert(constant(i1, test)).result
        mask = _like(builder, held, type_)
    one = builder.insert(kind(op.base, index, type_, bounds=bounds, mask=mask, guarded=op.guarded_dimensions))
    return builder.insert(BroadcastOp(one.result, op.tile.type)).result


def _index(version: _InPieces, op: AccessOp, base: SSAValue, slope: int) -> list[Index]:
    """The indices of the access, with one that is affine in place of the tile."""
    found: list[Index] = [(tuple(index.terms), op.offset_of(number)) for number, index in enumerate(op.index)]
    lanes = ((version.access.lanes, slope),) if slope else ()
    found[version.access.dimension] = ((*found[version.access.dimension][0], *lanes), base)
    return found


def _has_tiles(index: Sequence[Index]) -> bool:
    return any(offset is not None and isinstance(offset.type, TensorType) for _, offset in index)


def _not(builder: Builder, mask: SSAValue) -> SSAValue:
    ones = builder.insert(constant(mask.type, 1)).result
    return builder.insert(arith.XOrIOp(mask, ones)).result


def _like(builder: Builder, mask: SSAValue, like: Attribute) -> SSAValue:
    """A mask with the axes of a tile."""
    type_ = tile_type(i1, axes_of(like), tuple(sizes_of(like).values()))
    return mask if mask.type == type_ else builder.insert(BroadcastOp(mask, type_)).result
