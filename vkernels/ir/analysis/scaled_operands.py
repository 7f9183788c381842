"""Operands of dots times their scales, as block-scaled formats have them: found where a kernel spells them out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, Float8E4M3FNType, Float8E5M2Type, i8
from xdsl.ir import Block, Operation, SSAValue

from ..dialect import (
    AccessOp,
    BelowOp,
    BroadcastOp,
    DecodeOp,
    DotOp,
    GatherOp,
    PositionOp,
    arith,
    axes_of,
    element_of,
)
from .accesses import constant_of

_FLOAT8 = (Float8E4M3FNType, Float8E5M2Type)
_BLOCKS = {"e8m0": 32, "e4m3": 16}
"""Elements that share a scale, by the format of the scales: of mxfp8 and mxfp4, and of nvfp4."""


@dataclass(frozen=True)
class ScaledOperand:
    """A tile times its blocks' scales.

    `source`: the tile, f8, or i8 with two E2M1 each; `half`: the format of `vk.decode` where it is one of these, else
    empty. `scale`: where the scales are gathered, i8 of E8M0 or f8E4M3FN; `dimension`: of its memory, the one that
    counts blocks; `positions` of a block along `axis`; `base`: the first position, None for 0.
    """

    source: SSAValue
    half: str
    scale: GatherOp
    dimension: int
    positions: int
    base: SSAValue | None
    axis: str

    @property
    def format(self) -> str:
        """The format's name: mxfp8, mxfp4 or nvfp4."""
        if not self.half:
            return "mxfp8"
        return "mxfp4" if element_of(self.scale.result) == i8 else "nvfp4"


def scaled_operand(value: SSAValue, axis: str) -> ScaledOperand | None:
    """The scaled operand that a side of a dot along `axis` is, in a format that tensor cores have; else None."""
    owner = _same_axes(_unmasked(value, axis)).owner
    if not isinstance(owner, arith.MulfOp):
        return None
    number, factor = _same_axes(owner.lhs).owner, _unrepeated(owner.rhs).owner
    source, half = _source(number)
    scale, form = _scale(factor)
    if source is None or scale is None or not set(axes_of(source)) >= set(axes_of(scale)):
        return None
    gather, elements = scale.owner, 2 if half else 1
    if not isinstance(gather, GatherOp) or (found := _blocks_along(gather, axis)) is None:
        return None
    dimension, positions, base = found
    if positions * elements != _BLOCKS[form] or (form == "e4m3" and not half):
        return None
    return ScaledOperand(source, half, gather, dimension, positions, base, axis)


def scaled_sides(dot: DotOp) -> tuple[ScaledOperand, ScaledOperand] | None:
    """Both operands of a dot, where both are scaled, in formats that tensor cores multiply."""
    left, right = (scaled_operand(side, dot.axis.data) for side in (dot.left, dot.right))
    if left is None or right is None or left.half != right.half:
        return None
    if element_of(left.scale.result) != element_of(right.scale.result):
        return None
    return left, right


@dataclass(frozen=True)
class ScaledParts:
    """What a kernel spells out of its scaled dots, which tensor cores do themselves: the operations, each with one dot
    that it is for; of those the gathers of scales, each with positions of a block; and dots of upper halves of fp4."""

    dots: Mapping[Operation, DotOp]
    scales: Mapping[Operation, int]
    upper: frozenset[DotOp]


def scaled_parts(kernel: Operation) -> ScaledParts:
    """The parts of all scaled dots of a kernel."""
    dots: dict[Operation, DotOp] = {}
    scales: dict[Operation, int] = {}
    upper: set[DotOp] = set()
    for dot in kernel.walk():
        sides = scaled_sides(dot) if isinstance(dot, DotOp) else None
        if sides is None or not isinstance(dot, DotOp):
            continue
        for value, side in zip((dot.left, dot.right), sides, strict=True):
            product = _same_axes(value).owner
            owners = [product, side.scale, side.source.owner]
            owners += [_unrepeated(operand).owner for operand in getattr(product, "operands", ())]
            dots.update((owner, dot) for owner in owners if isinstance(owner, Operation))
            scales[side.scale] = side.positions
        if sides[0].half == "e2m1_high":
            upper.add(dot)
    return ScaledParts(dots, scales, frozenset(upper))


def _source(owner: object) -> tuple[SSAValue | None, str]:
    if isinstance(owner, DecodeOp) and owner.format.data.startswith("e2m1"):
        return owner.bytes, owner.format.data
    if isinstance(owner, arith.ExtFOp) and isinstance(element_of(owner.operands[0]), _FLOAT8):
        return owner.operands[0], ""
    return None, ""


def _scale(owner: object) -> tuple[SSAValue | None, str]:
    if isinstance(owner, DecodeOp) and owner.format.data == "e8m0":
        return owner.bytes, "e8m0"
    if isinstance(owner, arith.ExtFOp) and isinstance(element_of(owner.operands[0]), Float8E4M3FNType):
        return owner.operands[0], "e4m3"
    return None, ""


def _same_axes(value: SSAValue) -> SSAValue:
    """A value before its axes were put in another order."""
    while isinstance(value.owner, BroadcastOp) and set(axes_of(value.owner.source)) == set(axes_of(value)):
        value = value.owner.source
    return value


def _unrepeated(value: SSAValue) -> SSAValue:
    """A value before it was repeated along more axes."""
    while isinstance(value.owner, BroadcastOp):
        value = value.owner.source
    return value


def _unmasked(value: SSAValue, axis: str) -> SSAValue:
    """A value before positions past the end became 0, where what it is loaded from is 0 there already."""
    owner = value.owner
    if not isinstance(owner, arith.SelectOp) or not _is_zero(owner.rhs):
        return value
    mask = owner.cond.owner
    mask = mask.source.owner if isinstance(mask, BroadcastOp) else mask
    inside = owner.lhs.owner
    if not isinstance(mask, BelowOp) or mask.axis.data != axis or not isinstance(inside, arith.MulfOp):
        return value
    source, _ = _source(_same_axes(inside.operands[0]).owner)
    load = None if source is None else source.owner
    return owner.lhs if isinstance(load, AccessOp) and load.bounds.get(axis) == mask.count else value


def _is_zero(value: SSAValue) -> bool:
    owner = value.owner
    if not isinstance(owner, arith.ConstantOp) or not isinstance(owner.value, DenseIntOrFPElementsAttr):
        return False
    return not any(owner.value.get_values())


def _blocks_along(gather: GatherOp, axis: str) -> tuple[int, int, SSAValue | None] | None:
    """The dimension that is indexed by positions of an axis // a number, the number, and the first position."""
    tiles = [d for d in range(len(gather.index)) if (o := gather.offset_of(d)) is not None and axes_of(o)]
    if len(tiles) != 1 or gather.mask is not None or gather.index.data[tiles[0]].terms:
        return None
    (dimension,) = tiles
    if dimension in gather.guarded_dimensions:
        return None
    offset = gather.offset_of(dimension)
    quotient = None if offset is None else offset.owner
    if not isinstance(quotient, arith.FloorDivSIOp | arith.DivUIOp) or axes_of(quotient.result) != (axis,):
        return None
    divisor, positions = _divisor(quotient.rhs), quotient.lhs.owner
    if divisor is None or divisor < 1:
        return None
    if isinstance(positions, PositionOp):
        return dimension, divisor, None
    if not isinstance(positions, arith.AddiOp) or not isinstance(positions.lhs.owner, PositionOp):
        return None
    base = positions.rhs.owner
    return (dimension, divisor, base.source) if isinstance(base, BroadcastOp) else None


def _divisor(value: SSAValue) -> int | None:
    """A number that is the same at every position; past the end a divisor may be 1."""
    owner = value.owner
    if isinstance(owner, BroadcastOp):
        return _divisor(owner.source)
    return _divisor(owner.lhs) if isinstance(owner, arith.SelectOp) else constant_of(value)


def is_multiple(value: SSAValue | None, of: int) -> bool:
    """Whether an integer is known to be a multiple of a number; None is 0."""
    if value is None:
        return True
    owner = value.owner
    if isinstance(owner, Block):
        loop = owner.parent_op()
        if not isinstance(loop, scf.ForOp) or value is not owner.args[0]:
            return False
        return is_multiple(loop.lb, of) and is_multiple(loop.step, of)
    if isinstance(owner, arith.MuliOp):
        return any(is_multiple(operand, of) for operand in owner.operands)
    if isinstance(owner, arith.AddiOp | arith.SubiOp | arith.MinSIOp | arith.MaxSIOp):
        return all(is_multiple(operand, of) for operand in owner.operands)
    known = constant_of(value)
    return known is not None and known % of == 0


__all__ = ["ScaledOperand", "ScaledParts", "is_multiple", "scaled_operand", "scaled_parts", "scaled_sides"]
