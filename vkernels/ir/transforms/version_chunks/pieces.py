"""The pieces of an index along an axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from xdsl.dialects import scf
from xdsl.ir import Block, SSAValue

from ...analysis.piecewise import (
    Absolute,
    Bounded,
    Expression,
    Invariant,
    Position,
    Quotient,
    Remainder,
    Scaled,
    Sum,
    constant_in,
)
from ...dialect import LaunchOp, SizeOp, arith
from .scalars import Scalar, Scalars, Truth


@dataclass(frozen=True)
class Piece:
    """The index from position `start` on, up to the next piece: `base` + `slope` * position. `main`: whether most
    chunks are likely to lie in it."""

    start: Scalar
    base: Scalar
    slope: int
    main: bool = True


@dataclass(frozen=True)
class Pieces:
    """What an index is at the first `count` positions, where `valid`: pieces in order, of which some may be empty."""

    pieces: tuple[Piece, ...]
    valid: Truth = True

    @property
    def slope(self) -> int:
        """That of the main pieces."""
        return next(piece.slope for piece in self.pieces if piece.main)


def pieces_of(expression: Expression, scalars: Scalars, count: Scalar) -> Pieces | None:
    """The pieces of an expression, whose arithmetic is emitted; None if there may be too many."""
    match expression:
        case Invariant(value):
            return number_pieces(scalars, value)
        case Position():
            return Pieces((Piece(0, 0, 1),))
        case Scaled(of, factor) if abs(factor) <= MOST_SCALED:
            scaled = lambda p: replace(p, base=scalars.times(p.base, factor), slope=factor * p.slope)  # noqa: E731
            return _each(pieces_of(of, scalars, count), scaled)
        case Sum(left, right):
            return _sum(scalars, pieces_of(left, scalars, count), pieces_of(right, scalars, count))
        case Remainder(of, divisor):
            return _remainder(scalars, pieces_of(of, scalars, count), number_pieces(scalars, divisor), count)
        case Quotient(of, divisor):
            return _quotient(scalars, pieces_of(of, scalars, count), number_pieces(scalars, divisor), count)
        case Bounded(of, Invariant(bound), below):
            found, limit = pieces_of(of, scalars, count), number_pieces(scalars, bound)
            if found is not None:
                found = replace(found, valid=scalars.both(found.valid, limit.valid))
            return _split(scalars, found, lambda p: _bounded(scalars, p, limit.pieces[0].base, below))
        case Absolute(of):
            return _split(scalars, pieces_of(of, scalars, count), lambda p: _absolute(scalars, p))
    return None


MOST_SCALED = 1 << 16
LARGEST = 1 << 40
"""Of numbers beyond, sums of multiples might wrap around."""


def number_pieces(scalars: Scalars, value: SSAValue) -> Pieces:
    """A scalar, valid if it is not huge."""
    number = scalars.known(value)
    if not isinstance(number, int) and is_small(value):
        return Pieces((Piece(0, number, 0),))
    fits = scalars.both(scalars.is_at_least(LARGEST, number), scalars.is_at_least(number, -LARGEST))
    return Pieces((Piece(0, number, 0),), fits)


def is_small(value: SSAValue) -> bool:
    """Whether a scalar is a size or a position, or a sum of a few."""
    op = value.owner
    if isinstance(op, Block):
        loop = op.parent_op()
        if isinstance(loop, scf.ForOp):
            return value is op.args[0] and is_small(loop.lb) and is_small(loop.ub)
        return isinstance(loop, LaunchOp)
    if (number := constant_in(value)) is not None:
        return abs(number) <= LARGEST
    if isinstance(op, arith.AddiOp | arith.SubiOp | arith.MinSIOp | arith.MaxSIOp):
        return all(is_small(operand) for operand in op.operands)
    if isinstance(op, arith.MuliOp):  # the first position of a tile, or a number of positions
        return is_small(op.lhs) and constant_in(op.rhs) is not None
    return isinstance(op, SizeOp)


def _each(pieces: Pieces | None, change: Callable[[Piece], Piece]) -> Pieces | None:
    return None if pieces is None else replace(pieces, pieces=tuple(map(change, pieces.pieces)))


def _sum(scalars: Scalars, left: Pieces | None, right: Pieces | None) -> Pieces | None:
    """The sum of two, one of which has one piece."""
    if left is None or right is None:
        return None
    if len(right.pieces) > 1:
        left, right = right, left
    if len(right.pieces) > 1:
        return None
    (one,) = right.pieces
    add = lambda p: replace(p, base=scalars.add(p.base, one.base), slope=p.slope + one.slope)  # noqa: E731
    return _each(replace(left, valid=scalars.both(left.valid, right.valid)), add)


def _remainder(scalars: Scalars, of: Pieces | None, by: Pieces, count: Scalar) -> Pieces | None:
    """Three pieces, if no more than twice as many positions are gone through as the divisor has."""
    if of is None or len(of.pieces) > 1 or abs(of.pieces[0].slope) > 1:
        return None
    (piece,), divisor = of.pieces, by.pieces[0].base
    valid = scalars.both(of.valid, by.valid)
    rest = scalars.remainder(piece.base, divisor)
    first = Piece(0, rest, piece.slope)
    if piece.slope == 0:
        return Pieces((first,), scalars.both(valid, scalars.is_at_least(divisor, 1)))
    valid = scalars.both(valid, scalars.is_at_least(scalars.times(divisor, 2), scalars.most(count, 2)))
    start = scalars.subtract(divisor, rest) if piece.slope > 0 else scalars.add(rest, 1)
    change = scalars.times(divisor, -piece.slope)
    second = Piece(start, scalars.add(rest, change), piece.slope, main=False)
    third = Piece(scalars.add(start, divisor), scalars.add(second.base, change), piece.slope, main=False)
    return Pieces((first, second, third), valid)


def _quotient(scalars: Scalars, of: Pieces | None, by: Pieces, count: Scalar) -> Pieces | None:
    """Two numbers, if no more positions are gone through than the divisor has."""
    if of is None or len(of.pieces) > 1 or of.pieces[0].slope not in (0, 1):
        return None
    (piece,), divisor = of.pieces, by.pieces[0].base
    valid = scalars.both(of.valid, by.valid)
    first = scalars.quotient(piece.base, divisor)
    if piece.slope == 0:
        return Pieces((Piece(0, first, 0),), scalars.both(valid, scalars.is_at_least(divisor, 1)))
    valid = scalars.both(valid, scalars.is_at_least(divisor, scalars.most(count, 1)))
    second = scalars.add(first, 1)
    changes = scalars.subtract(scalars.product(second, divisor), piece.base)
    return Pieces((Piece(0, first, 0), Piece(changes, second, 0, main=False)), valid)


def _split(scalars: Scalars, of: Pieces | None, split: Callable[[Piece], Sequence[Piece]]) -> Pieces | None:
    """Each piece replaced by several, which begin where the piece does at the earliest."""
    if of is None or any(abs(piece.slope) > 1 for piece in of.pieces):
        return None
    ends = [*(piece.start for piece in of.pieces[1:]), None]
    found = (_within(scalars, piece, end, split(piece)) for piece, end in zip(of.pieces, ends, strict=True))
    return replace(of, pieces=tuple(chain.from_iterable(found)))


def _within(scalars: Scalars, piece: Piece, end: Scalar | None, parts: Sequence[Piece]) -> list[Piece]:
    """Parts of a piece, none of which begins before the piece or after its end."""
    first, *rest = parts
    moved = [replace(first, start=piece.start)]
    for part in rest:
        start = scalars.most(part.start, piece.start)
        moved.append(replace(part, start=start if end is None else scalars.least(start, end)))
    return moved


def _bounded(scalars: Scalars, piece: Piece, bound: Scalar, below: bool) -> Sequence[Piece]:
    """A piece that is not below a bound, or not above it."""
    at = Piece(0, bound, 0, main=False)
    if piece.slope == 0:
        limit = scalars.most if below else scalars.least
        return (replace(piece, base=limit(piece.base, bound)),)
    if piece.slope > 0:  # reaches the bound, or passes it, at this position
        meets = scalars.subtract(bound, piece.base)
        return (at, replace(piece, start=meets)) if below else (piece, replace(at, start=meets))
    meets = scalars.subtract(piece.base, bound)
    return (piece, replace(at, start=meets)) if below else (at, replace(piece, start=meets))


def _absolute(scalars: Scalars, piece: Piece) -> Sequence[Piece]:
    negative = replace(piece, base=scalars.times(piece.base, -1), slope=-piece.slope, main=False)
    if piece.slope == 0:
        size = scalars.most(piece.base, negative.base)
        return (replace(piece, base=size),)
    if piece.slope > 0:
        return negative, replace(piece, start=negative.base)
    return piece, replace(negative, start=piece.base)
